package org.truechimer;

/** No clock, or no time from it: the text says why, and what to do. */
public class ClockException extends Exception {
    private static final long serialVersionUID = 1;

    /** Number of the error, below 0: TRUECHIMER_E_... of the header truechimer.h. */
    private final int code;

    ClockException(String text, int code) {
        super(text);
        this.code = code;
    }

    /** Number of the error, below 0: TRUECHIMER_E_... of the header truechimer.h. */
    public int code() {
        return code;
    }
}
