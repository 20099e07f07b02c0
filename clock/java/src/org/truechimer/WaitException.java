package org.truechimer;

/** End of a wait in vain. */
public final class WaitException extends ClockException {
    private static final long serialVersionUID = 1;

    WaitException(String text, int code) {
        super(text, code);
    }
}
