// Declarations of libtruechimer for koffi, as docs/use/node.md has them, of all that these tests call.
"use strict";
const koffi = require("koffi");

koffi.struct("timespec", { seconds: "int64", nanoseconds: "int64" });
koffi.struct("Reading", { earliest: "timespec", best: "timespec", latest: "timespec", count: "uint64",
    status: "int32", tai_offset: "int32", flags: "uint32", reserved: "uint32" });
koffi.struct("Moment", { count: "uint64", stretch: "uint64" });
koffi.struct("Length", { ns: "int64", bound_ns: "int64" });
koffi.struct("Timer", { seconds: "int64", period_ns: "int64", nanoseconds: "uint32", side: "int32" });
koffi.struct("Tick", { time: "timespec", missed: "uint64", reading: "Reading" });

const library = koffi.load("libtruechimer.so.0");
const named = (name, result, rest) => library.func(`${result} truechimer_${name}(${rest})`);

module.exports = {
    openAt: named("open_at", "int",
        "const char *page, uint32_t flags, const timespec *timeout, _Out_ void **clock, _Out_ uint8_t *text, size_t size"),
    now: named("now", "int", "const void *clock, _Out_ Reading *reading"),
    nowInto: named("now", "int", "const void *clock, void *reading"),
    nowMonotone: named("now_monotone", "int", "const void *clock, _Out_ Reading *reading"),
    status: named("status", "int", "const void *clock"),
    count: named("count", "int", "const void *clock, _Out_ Moment *moment"),
    timeOf: named("time_of", "int", "const void *clock, const Moment *moment, _Out_ Reading *reading"),
    elapsed: named("elapsed", "int", "const void *clock, const Moment *from, const Moment *to, _Out_ Length *length"),
    uptime: named("uptime", "int", "const void *clock, _Out_ Length *length"),
    waitAfter: named("wait_after", "int",
        "const void *clock, const timespec *time, const timespec *timeout, _Out_ Reading *reading"),
    waitFor: named("wait_for", "int",
        "const void *clock, const timespec *time, int side, const timespec *timeout, _Out_ Reading *reading"),
    waitSynchronised: named("wait_synchronised", "int",
        "const void *clock, const timespec *max_bound, const timespec *timeout, _Out_ Reading *reading"),
    timerBegin: named("timer_begin", "int",
        "const void *clock, const timespec *first, int64_t period_ns, int side, _Out_ Timer *timer"),
    timerTick: named("timer_tick", "int",
        "const void *clock, _Inout_ Timer *timer, const timespec *timeout, _Out_ Tick *tick"),
    explain: named("explain", "int",
        "const void *clock, const Moment *moment, int error, _Out_ uint8_t *text, size_t size"),
    statusName: named("status_name", "const char *", "int status"),
};
