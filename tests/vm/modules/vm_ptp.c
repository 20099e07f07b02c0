// SPDX-License-Identifier: GPL-2.0
/*
 * A PTP hardware clock whose error is known: /dev/ptp0 of a guest.
 *
 * It shows base + raw * (1 - ppb / 10^9) + ahead, in ns, where raw is CLOCK_MONOTONIC_RAW: nothing
 * that is done to the system clock shows in it. `ahead` may be set while it runs, as somebody may
 * step a card. `way` says what the driver can do: 0 cross stamps by hardware, 1 readings between two
 * of the system clock, 2 neither.
 */
#include <linux/err.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/timekeeping.h>

static long base;
module_param(base, long, 0444);
MODULE_PARM_DESC(base, "what it shows when the raw clock shows 0, s");
static long ppb;
module_param(ppb, long, 0444);
MODULE_PARM_DESC(ppb, "by how much it runs slower than the raw clock, in 10^-9");
static long ahead;
module_param(ahead, long, 0644);
MODULE_PARM_DESC(ahead, "how far it is ahead of that, ns");
static int way;
module_param(way, int, 0444);
MODULE_PARM_DESC(way, "0: cross stamps; 1: readings between two of the system clock; 2: neither");

static struct ptp_clock *clock;

static u64 shown(u64 raw)
{
	s64 lost = div_s64((s64)(raw / 1000) * ppb, 1000000);

	return (u64)base * NSEC_PER_SEC + raw - lost + ahead;
}

static int cross_stamp(struct ptp_clock_info *info, struct system_device_crosststamp *stamp)
{
	struct system_time_snapshot snapshot;

	ktime_get_snapshot(&snapshot);
	stamp->device = ns_to_ktime(shown(ktime_to_ns(snapshot.raw)));
	stamp->sys_realtime = snapshot.real;
	stamp->sys_monoraw = snapshot.raw;
	return 0;
}

static int get_time(struct ptp_clock_info *info, struct timespec64 *time)
{
	*time = ns_to_timespec64(shown(ktime_get_raw_ns()));
	return 0;
}

static int get_time_between(struct ptp_clock_info *info, struct timespec64 *time,
			    struct ptp_system_timestamp *system)
{
	ptp_read_system_prets(system);
	get_time(info, time);
	ptp_read_system_postts(system);
	return 0;
}

static int set_time(struct ptp_clock_info *info, const struct timespec64 *time)
{
	ahead += timespec64_to_ns(time) - shown(ktime_get_raw_ns());
	return 0;
}

static int adjust_time(struct ptp_clock_info *info, s64 by)
{
	ahead += by;
	return 0;
}

static int adjust_rate(struct ptp_clock_info *info, long by)
{
	return -EOPNOTSUPP;
}

static int enable(struct ptp_clock_info *info, struct ptp_clock_request *request, int on)
{
	return -EOPNOTSUPP;
}

static struct ptp_clock_info info = {
	.owner = THIS_MODULE,
	.name = "vm_ptp",
	.settime64 = set_time,
	.adjtime = adjust_time,
	.adjfine = adjust_rate,
	.enable = enable,
};

static int __init vm_ptp_init(void)
{
	if (way == 0)
		info.getcrosststamp = cross_stamp;
	if (way <= 1)
		info.gettimex64 = get_time_between;
	else
		info.gettime64 = get_time;
	clock = ptp_clock_register(&info, NULL);
	return PTR_ERR_OR_ZERO(clock);
}

static void __exit vm_ptp_exit(void)
{
	ptp_clock_unregister(clock);
}

module_init(vm_ptp_init);
module_exit(vm_ptp_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A PTP hardware clock of known error, for tests in a virtual machine");
