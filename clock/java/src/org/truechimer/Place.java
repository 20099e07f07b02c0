package org.truechimer;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.Charset;

/** Memory outside the heap, into which the library puts its answers. */
final class Place {
    /** Most that one of a thread's own has to hold: a reading. */
    private static final int ANSWER = 72;
    private static final ThreadLocal<Place> OWN = ThreadLocal.withInitial(() -> new Place(ANSWER));

    final ByteBuffer bytes;
    final long address;

    Place(int size) {
        bytes = ByteBuffer.allocateDirect(size).order(ByteOrder.nativeOrder());
        address = Native.address(bytes);
    }

    /** A place with these bytes and a zero. */
    Place(byte[] text) {
        this(text.length + 1);
        bytes.put(text).put((byte) 0);
    }

    /** This thread's own, for answers that are looked at before the next is asked for. */
    static Place own() {
        return OWN.get();
    }

    /** The text before the first zero. */
    String text(Charset charset) {
        int length = 0;
        while (bytes.get(length) != 0) {
            length++;
        }
        byte[] text = new byte[length];
        bytes.position(0);
        bytes.get(text);
        return new String(text, charset);
    }
}
