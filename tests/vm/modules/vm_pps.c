// SPDX-License-Identifier: GPL-2.0
/*
 * A pulse per second whose error is known: /dev/pps0 of a guest.
 *
 * Pulses come at the multiples of (1 + ppb / 10^9) s of CLOCK_MONOTONIC_RAW, so that they have
 * nothing to do with how the system clock is steered. A timer wakes a little too early, and the
 * rest is waited out by looking at the clock: a pulse is late by no more than one look.
 */
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/pps_kernel.h>
#include <linux/timekeeping.h>

static long ppb;
module_param(ppb, long, 0444);
MODULE_PARM_DESC(ppb, "how much longer than a second of the raw clock a period is, in 10^-9");

/* The last piece, which is waited out: timers are late by some microseconds. */
#define LAST_NS 10000

static struct pps_device *pps;
static struct hrtimer timer;
/* When the next pulse is due by the raw clock, ns. */
static u64 due;

/*
 * Timers run by the system clock, which may be steered: what is left is approached in steps, each of
 * which stops short by more than the clock can be off by in that time.
 */
static void sleep_until_nearly_due(void)
{
	s64 left = (s64)(due - ktime_get_raw_ns()) - LAST_NS / 2;

	hrtimer_set_expires(&timer, ktime_add_ns(ktime_get(), max_t(s64, left - left / 1024, 0)));
}

static enum hrtimer_restart pulse(struct hrtimer *unused)
{
	struct pps_event_time now;

	if ((s64)(due - ktime_get_raw_ns()) > LAST_NS) {
		sleep_until_nearly_due();
		return HRTIMER_RESTART;
	}
	while ((s64)(ktime_get_raw_ns() - due) < 0)
		cpu_relax();
	pps_get_ts(&now);
	pps_event(pps, &now, PPS_CAPTUREASSERT, NULL);
	due += NSEC_PER_SEC + ppb;
	/* After a suspend, say: leave out what was missed. */
	while ((s64)(due - ktime_get_raw_ns()) < 0)
		due += NSEC_PER_SEC + ppb;
	sleep_until_nearly_due();
	return HRTIMER_RESTART;
}

static struct pps_source_info source = {
	.name = "vm_pps",
	.path = "",
	.mode = PPS_CAPTUREASSERT | PPS_OFFSETASSERT | PPS_CANWAIT | PPS_TSFMT_TSPEC,
	.owner = THIS_MODULE,
};

static int __init vm_pps_init(void)
{
	if (ppb < -100000000 || ppb > 100000000)
		return -EINVAL;
	pps = pps_register_source(&source, PPS_CAPTUREASSERT);
	if (IS_ERR(pps))
		return PTR_ERR(pps);
	due = (div64_u64(ktime_get_raw_ns(), NSEC_PER_SEC + ppb) + 2) * (NSEC_PER_SEC + ppb);
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	timer.function = pulse;
	sleep_until_nearly_due();
	hrtimer_start_expires(&timer, HRTIMER_MODE_ABS);
	return 0;
}

static void __exit vm_pps_exit(void)
{
	hrtimer_cancel(&timer);
	pps_unregister_source(pps);
}

module_init(vm_pps_init);
module_exit(vm_pps_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A pulse per second of known error, for tests in a virtual machine");
