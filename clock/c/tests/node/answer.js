// Reads questions about the clock, one a line, and prints one line for each: what
// clock/client/tests/languages.rs asks to compare libtruechimer, called by koffi, with the client in Rust.
"use strict";
const { fork } = require("node:child_process");
const { readFileSync, readdirSync, readlinkSync } = require("node:fs");
const readline = require("node:readline");
const library = require("./clock.js");

const SECOND = 1_000_000_000n;
const TIMEOUT = -15;
const TEXT_BYTES = 512;
let clock = null;
let page = null;
let timer = {};

class ClockError extends Error {}

const text = (write) => {
    const bytes = Buffer.alloc(TEXT_BYTES);
    write(bytes);
    return bytes.toString("utf8", 0, bytes.indexOf(0));
};

function open(path) {
    const place = [null];
    let error = 0;
    const said = text((bytes) => { error = library.openAt(path, 0, null, place, bytes, TEXT_BYTES); });
    if (error !== 0) throw new ClockError(said);
    [clock, page] = [place[0], path];
    return "ok";
}

// What a function of the library puts into its last argument.
function asked(call, moment = null) {
    const place = {};
    const error = call(place);
    if (error === TIMEOUT) {
        throw new ClockError(`waited in vain: the status is ${library.statusName(library.status(clock))}`);
    }
    if (error !== 0) throw new ClockError(text((bytes) => library.explain(clock, moment, error, bytes, TEXT_BYTES)));
    return place;
}

const timespec = (ns) => {
    const nanoseconds = ((ns % SECOND) + SECOND) % SECOND;
    return { seconds: (ns - nanoseconds) / SECOND, nanoseconds };
};
const milliseconds = (ms) => timespec(ms * 1_000_000n);
const held = (ns) => BigInt.asIntN(64, ns) === ns ? ns : ns < 0n ? -(2n ** 63n) : 2n ** 63n - 1n;
const nanos = ({ seconds, nanoseconds }) => held(BigInt(seconds) * SECOND + BigInt(nanoseconds));

function reading(r) {
    const [earliest, best, latest] = [r.earliest, r.best, r.latest].map(nanos);
    const wide = best - earliest > latest - best ? best - earliest : latest - best;
    const bound = r.status === 1 || r.status === 2 ? held(wide) : -1n;
    // Its flags are the other way round.
    const flags = (r.flags & 2) >> 1 | (r.flags & 1) << 1;
    return [r.count, earliest, best, latest, bound, r.status, r.tai_offset, flags].join(" ");
}

const length = ({ ns, bound_ns }) => `${ns} ${bound_ns}`;

function answer(question, n) {
    const moment = { count: n[0], stretch: n[1] };
    switch (question) {
        case "now": return reading(asked((r) => library.now(clock, r)));
        case "mono": return reading(asked((r) => library.nowMonotone(clock, r)));
        case "count": {
            const { count, stretch } = asked((m) => library.count(clock, m));
            return `${count} ${stretch}`;
        }
        case "timeof": return reading(asked((r) => library.timeOf(clock, moment, r), moment));
        case "elapsed": {
            const to = { count: n[2], stretch: n[3] };
            // Of the two, the one that is at fault.
            const at = library.timeOf(clock, moment, {}) !== 0 ? moment : to;
            return length(asked((l) => library.elapsed(clock, moment, to, l), at));
        }
        case "uptime": return length(asked((l) => library.uptime(clock, l)));
        case "status": return library.statusName(library.status(clock));
        case "after":
            return reading(asked((r) => library.waitAfter(clock, timespec(n[0]), milliseconds(n[1]), r)));
        case "for":
            return reading(asked((r) => library.waitFor(clock, timespec(n[0]), Number(n[1]), milliseconds(n[2]), r)));
        case "synchronised":
            return reading(asked((r) => library.waitSynchronised(clock, timespec(n[0]), milliseconds(n[1]), r)));
        case "timer":
            timer = asked((t) => library.timerBegin(clock, timespec(n[0]), n[1], Number(n[2]), t));
            return "ok";
        case "tick": {
            const tick = asked((t) => library.timerTick(clock, timer, milliseconds(n[0]), t));
            return `${nanos(tick.time)} ${tick.missed} ${reading(tick.reading)}`;
        }
        default: throw new RangeError(question);
    }
}

// Number of this process's files and mappings that are the page.
function holds(path) {
    const leads = (number) => {
        try {
            return readlinkSync(`/proc/self/fd/${number}`) === path;
        } catch {
            return false; // That of the folder itself, closed since.
        }
    };
    const mapped = readFileSync("/proc/self/maps", "utf8").split("\n").filter((line) => line.endsWith(` ${path}`));
    return readdirSync("/proc/self/fd").filter(leads).length + mapped.length;
}

// Words of a child, which has a memory of its own: no handle goes with it. One that ends without any is an error.
const child = () => new Promise((said, failed) => {
    const started = fork(__filename, ["child", page]).once("message", said).once("error", failed);
    // After all that it sent, as its exit need not be.
    started.once("disconnect", () => failed(new Error("the child ended and said nothing")));
});

function ofChild(path) {
    const inherited = holds(path);
    open(path);
    return `${inherited} ${holds(path)} ${answer("now", [])}`;
}

// What is said, or the words of an error of the clock's.
async function orError(say) {
    try {
        return await say();
    } catch (error) {
        if (!(error instanceof ClockError)) throw error;
        return `error ${error.message}`;
    }
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [question, ...rest] = line.split(" ");
        console.log(await orError(() => {
            if (question === "open") return open(rest[0]);
            if (question === "child") return child();
            return answer(question, rest.map(BigInt));
        }));
    }
}

if (process.argv[2] === "child") {
    orError(() => ofChild(process.argv[3])).then((said) => process.send(said));
} else {
    main();
}
