package org.truechimer;

/** No time: the clock cannot tell. */
public final class ReadException extends ClockException {
    private static final long serialVersionUID = 1;

    ReadException(String text, int code) {
        super(text, code);
    }
}
