# Judges a console with TAP (Test Anything Protocol) on it; prints what is wrong and, in the end,
# the same line as Rust's test harness, which scripts/test counts.
# Variables: name; status (of the emulator: 124 and 137 if it had to be stopped).
function wrong(what) { print "FAILED vm " name ": " what; failed++ }
/^(\[[ .0-9]+\] )?(BUG:|Oops|Kernel panic|general protection|Unable to handle)/ { if (!ended) crash = $0 }
/^VM-END / { ended = 1; if ($2 != "rc=0") wrong("its script ended with " $2) }
/^Bail out!/ { wrong($0) }
/^1\.\.[0-9]+/ { planned = substr($1, 4) + 0; plans++ }
/^ok [0-9]+/ {
    seen++
    if ($2 != seen) wrong("test " $2 " comes as number " seen)
    passed++
    if (match($0, /# SKIP/)) print "SKIPPED vm " name ": " substr($0, 4)
}
/^not ok [0-9]+/ { seen++; wrong($0) }
END {
    if (crash != "") wrong(crash)
    if (status == 124 || status == 137) wrong("it did not end in time")
    else if (!ended) wrong("the machine stopped before the script ended")
    if (plans != 1) wrong("no plan (1..N), or more than one")
    else if (planned != seen) wrong(planned " tests planned, " seen + 0 " seen")
    printf "test result: %s. %d passed; %d failed; 0 ignored (vm %s)\n", \
        failed ? "FAILED" : "ok", passed, failed, name
    exit failed ? 1 : 0
}
