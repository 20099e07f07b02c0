// Tells what a reading costs beside Date.now() and process.hrtime.bigint(), in ns, over the page that $TRUECHIMER_PAGE
// names and a daemon tends: the median of rounds that take turns.
"use strict";
const library = require("./clock.js");

const ROUNDS = 31;
const CALLS = 20_000;
const place = [null];
const error = library.openAt(null, 0, null, place, Buffer.alloc(0), 0);
if (error !== 0) throw new Error(`${process.env.TRUECHIMER_PAGE}: error ${error}`);
const clock = place[0];
const [reading, moment, words] = [{}, {}, new BigInt64Array(9)];
let kept;
const calls = {
    "truechimer_now": () => { kept = library.now(clock, reading); },
    "into a BigInt64Array": () => { kept = library.nowInto(clock, words); },
    "truechimer_count": () => { kept = library.count(clock, moment); },
    "process.hrtime.bigint()": () => { kept = process.hrtime.bigint(); },
    "Date.now()": () => { kept = Date.now(); },
};
const taken = Object.fromEntries(Object.keys(calls).map((name) => [name, []]));
// The first rounds are for the compiler.
for (let round = -5; round < ROUNDS; round++) {
    for (const [name, call] of Object.entries(calls)) {
        const start = process.hrtime.bigint();
        for (let n = 0; n < CALLS; n++) call();
        const each = Number(process.hrtime.bigint() - start) / CALLS;
        if (round >= 0) taken[name].push(each);
    }
}
const sorted = Object.entries(taken).map(([name, all]) => [name, all.sort((a, b) => a - b)]);
const median = (all) => all[ROUNDS >> 1];
const [[, first]] = sorted;
for (const [name, all] of sorted) {
    const at = (part) => all[Math.floor(part * (ROUNDS - 1))].toFixed(1);
    const ratio = (median(first) / median(all)).toFixed(2);
    console.log(`${name.padEnd(24)} ${median(all).toFixed(1)} ns (${at(0.05)} to ${at(0.95)}), a reading takes ${ratio} of it`);
}
