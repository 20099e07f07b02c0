package org.truechimer;

/** End of an attempt to open the clock: the text names the path and the mend. */
public final class OpenException extends ClockException {
    private static final long serialVersionUID = 1;

    OpenException(String text, int code) {
        super(text, code);
    }
}
