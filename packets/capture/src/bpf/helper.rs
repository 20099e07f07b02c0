//! The kernel's helper functions, by name.

/// A helper function of the kernel's that programs call. Arguments go in R1 to R5, the result comes
/// in R0; R1 to R5 are lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i32)]
pub enum Helper {
    /// `(map, *key)` → pointer to the value, or 0.
    MapLookup = 1,
    /// `(map, *key, *value, flags)` → 0 or −errno.
    MapUpdate = 2,
    /// `(map, *key)` → 0 or −errno.
    MapDelete = 3,
    /// `()` → `CLOCK_MONOTONIC`, ns.
    KtimeGetNs = 5,
    /// `()` → a random number, 32 bits.
    RandomU32 = 7,
    /// `()` → the number of this CPU.
    CpuId = 8,
    /// `(ctx, map, index)`: goes on in another program, and does not come back.
    TailCall = 12,
    /// `()` → thread group in the upper, thread in the lower 32 bits.
    CurrentPidTgid = 14,
    /// `(map, index)` → the perf event's count.
    PerfEventRead = 22,
    /// `(ifindex, flags)` → the verdict that sends the packet there.
    Redirect = 23,
    /// `(ctx, map, index, *data, size)` → 0 or −errno: a sample for user space.
    PerfEventOutput = 25,
    /// `(skb, offset, *to, size)` → 0 or −errno.
    SkbLoadBytes = 26,
    /// `(xdp, delta)` → 0 or −errno.
    XdpAdjustHead = 44,
    /// `(sock)`, in tracing programs → its number, which no other socket gets while the machine
    /// runs.
    SocketCookie = 46,
    /// `(map, key, flags)` → the verdict that sends the packet there; the low bits of `flags` are
    /// the verdict if there is nothing.
    RedirectMap = 51,
    /// `(xdp, delta)` → 0 or −errno.
    XdpAdjustMeta = 54,
    /// `(xdp, delta)` → 0 or −errno.
    XdpAdjustTail = 65,
    /// `(*to, size, *from)` → 0 or −errno: reads kernel memory.
    ProbeReadKernel = 113,
    /// `()` → jiffies, 64 bits.
    Jiffies64 = 118,
    /// `()` → `CLOCK_BOOTTIME`, ns.
    KtimeGetBootNs = 125,
    /// `(map, *data, size, flags)` → 0 or −errno: copies a record into a ring buffer.
    RingbufOutput = 130,
    /// `(map, size, flags)` → pointer to room for a record, or 0.
    RingbufReserve = 131,
    /// `(*record, flags)`.
    RingbufSubmit = 132,
    /// `(*record, flags)`.
    RingbufDiscard = 133,
    /// `(map, what)` → the ring buffer's state.
    RingbufQuery = 134,
    /// `()` → `CLOCK_MONOTONIC` as of the last tick, ns.
    KtimeGetCoarseNs = 160,
    /// `(xdp)` → length of the packet, fragments included.
    XdpGetBuffLen = 188,
    /// `(xdp, offset, *to, size)` → 0 or −errno.
    XdpLoadBytes = 189,
    /// `(xdp, offset, *from, size)` → 0 or −errno.
    XdpStoreBytes = 190,
    /// `(skb, stamp, kind)` → 0 or −errno.
    SkbSetTstamp = 192,
    /// `()` → `CLOCK_TAI`, ns.
    KtimeGetTaiNs = 208,
}

impl Helper {
    /// Number of the helper in the kernel's interface.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}
