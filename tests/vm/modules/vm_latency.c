// SPDX-License-Identifier: GPL-2.0
/*
 * How long the kernel's own clock interface takes to read the clocksource in force.
 *
 * Reading /proc/vm_latency measures anew, for the clocksource of that moment: each call stands
 * between two ordered reads of the TSC, with interrupts off, as in the feed-forward clock paper
 * (Figure 15). One line for each path:
 *
 *   PATH KHZ OVERHEAD : TICKS COUNT, TICKS COUNT, ...
 *
 * KHZ is the TSC's rate, OVERHEAD the ticks that nothing at all takes, TICKS how long a call took
 * including that, and COUNT how many took so long.
 */
#include <asm/msr.h>
#include <asm/tsc.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

static int calls = 20000;
module_param(calls, int, 0444);
MODULE_PARM_DESC(calls, "how often each path is measured");

/* Longer calls than this many ticks are counted as this many. */
#define LONGEST 65536

static u32 *seen;
static DEFINE_MUTEX(measuring);

/* The counter of the clocksource in force, as a timekeeper has it: by its read function. */
static u64 counter(void)
{
	struct system_time_snapshot now;

	ktime_get_snapshot(&now);
	return now.cycles;
}

static u64 nothing(void)
{
	return 0;
}

static u64 raw(void)
{
	return ktime_get_raw_ns();
}

static u64 realtime(void)
{
	return ktime_get_real_ns();
}

static u64 fast(void)
{
	return ktime_get_raw_fast_ns();
}

static const struct {
	const char *name;
	u64 (*read)(void);
} paths[] = {
	{ "nothing", nothing },
	{ "ktime_get_raw_ns", raw },
	{ "ktime_get_real_ns", realtime },
	{ "ktime_get_raw_fast_ns", fast },
	{ "ktime_get_snapshot", counter },
};

static void measure(u64 (*read)(void))
{
	unsigned long flags;
	u64 before, took;
	int i;

	memset(seen, 0, LONGEST * sizeof(*seen));
	for (i = 0; i < calls; i++) {
		local_irq_save(flags);
		before = rdtsc_ordered();
		(void)READ_ONCE(read)();
		took = rdtsc_ordered() - before;
		local_irq_restore(flags);
		seen[min_t(u64, took, LONGEST - 1)]++;
		if (i % 1000 == 0)
			cond_resched();
	}
}

static u32 least(void)
{
	u32 ticks = 0;

	while (ticks < LONGEST - 1 && !seen[ticks])
		ticks++;
	return ticks;
}

static int show(struct seq_file *out, void *unused)
{
	u32 overhead = 0, ticks;
	int path;

	mutex_lock(&measuring);
	for (path = 0; path < ARRAY_SIZE(paths); path++) {
		measure(paths[path].read);
		if (path == 0)
			overhead = least();
		seq_printf(out, "%s %u %u :", paths[path].name, tsc_khz, overhead);
		for (ticks = 0; ticks < LONGEST; ticks++)
			if (seen[ticks])
				seq_printf(out, " %u %u,", ticks, seen[ticks]);
		seq_putc(out, '\n');
	}
	mutex_unlock(&measuring);
	return 0;
}

static int __init vm_latency_init(void)
{
	if (calls < 1 || calls > 10000000)
		return -EINVAL;
	seen = kvmalloc_array(LONGEST, sizeof(*seen), GFP_KERNEL);
	if (!seen)
		return -ENOMEM;
	if (!proc_create_single("vm_latency", 0400, NULL, show)) {
		kvfree(seen);
		return -ENOMEM;
	}
	return 0;
}

static void __exit vm_latency_exit(void)
{
	remove_proc_entry("vm_latency", NULL);
	kvfree(seen);
}

module_init(vm_latency_init);
module_exit(vm_latency_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("The latency of the kernel's clock interface, for tests in a virtual machine");
