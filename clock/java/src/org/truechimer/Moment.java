package org.truechimer;

/** A count that knows which counter it is of: what to keep of an event, to ask later when it was. */
public final class Moment {
    private final long count;
    private final long stretch;

    /** A moment of a clock, from the two words that were kept of it. */
    public Moment(long count, long stretch) {
        this.count = count;
        this.stretch = stretch;
    }

    /** The count, 64 bits without a sign. */
    public long count() {
        return count;
    }

    /** Which counter, and which unbroken stretch of it: a word to be kept and not to be made. */
    public long stretch() {
        return stretch;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Moment && ((Moment) other).count == count && ((Moment) other).stretch == stretch;
    }

    @Override
    public int hashCode() {
        return Long.hashCode(count) * 31 + Long.hashCode(stretch);
    }

    @Override
    public String toString() {
        return "Moment " + Long.toUnsignedString(count) + " of " + Long.toHexString(stretch);
    }
}
