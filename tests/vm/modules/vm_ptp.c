// SPDX-License-Identifier: GPL-2.0
/*
 * A PTP hardware clock whose error is known: /dev/ptp0 of a guest.
 *
 * It shows base + raw * (1 - ppb / 10^9) + ahead, in ns, where raw is CLOCK_MONOTONIC_RAW: nothing
 * that is done to the system clock shows in it. `ahead` may be set while it runs, as somebody may
 * step a card. `way` says what the driver can do: 0 cross stamps by hardware, 1 readings between two
 * of the system clock, 2 neither.
 *
 * A pulse per second comes to channel 1 of its external time stamps, each at a second of the same clock without `ahead`.
 *
 * With cards=1 there are two network cards, card0 and card1, at the ends of one wire, which stamp by
 * that clock. What leaves card0 waits for `queue` ns between the kernel's stamp and the wire, what arrives
 * there for `interrupt` to `interrupt` + `late` ns; nothing waits in card1. A frame takes `wire` ns, and then as long as
 * 100 Mbit/s take for its bytes. While `mute` is set the cards stamp nothing. By `jump` ns somebody steps the
 * clock whenever a frame has left for card0. On the wire there may be queues each way, of up to `busy` ns and seldom
 * long.
 *
 * Where an oscillator that is not perfect is wanted, `walk` lets the rate of what is shown wander against the raw
 * clock's: each second by as much as that, in 10^-15, at the most, by chance, the same for the same `seed`.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/net_tstamp.h>
#include <linux/netdevice.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/vmalloc.h>

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

static int cards;
module_param(cards, int, 0444);
MODULE_PARM_DESC(cards, "1: with two network cards");
static long queue;
module_param(queue, long, 0644);
MODULE_PARM_DESC(queue, "what a frame waits in card0 before it leaves, ns");
static long interrupt;
module_param(interrupt, long, 0644);
MODULE_PARM_DESC(interrupt, "what a frame waits in card0 after it came, ns");
static long late = 15000;
module_param(late, long, 0644);
MODULE_PARM_DESC(late, "by how much longer at the most, by chance, ns");
static long wire = 5000;
module_param(wire, long, 0644);
MODULE_PARM_DESC(wire, "what the wire takes, ns");
static long jump;
module_param(jump, long, 0644);
MODULE_PARM_DESC(jump, "how far the clock is stepped when a frame has left for card0, ns");
static int mute;
module_param(mute, int, 0644);
MODULE_PARM_DESC(mute, "1: the cards stamp nothing");

static long busy;
module_param(busy, long, 0644);
MODULE_PARM_DESC(busy, "the longest queue on the wire, ns");
static long walk;
module_param(walk, long, 0444);
MODULE_PARM_DESC(walk, "by how much the rate changes each second at the most, 10^-15");
static ulong seed = 1;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "of all that is by chance");

static struct ptp_clock *clock;

/* A number of 24 bits by chance. */
static u64 chance(u64 *state)
{
	*state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
	return *state >> 40;
}

/* How long the rate wanders, s; then it stays. */
#define WALKS 20000
/* What it has gained by the beginning of each second, 10^-15 s, and its rate then, 10^-15. */
static struct {
	s64 gained, rate;
} *walked;

static int make_walk(void)
{
	u64 state = seed;
	int n;

	walked = vzalloc(WALKS * sizeof(*walked));
	if (!walked)
		return -ENOMEM;
	for (n = 1; n < WALKS; n++) {
		walked[n].gained = walked[n - 1].gained + walked[n - 1].rate;
		walked[n].rate = walked[n - 1].rate + (((s64)chance(&state) * 2 * walk) >> 24) - walk;
	}
	return 0;
}

/* What wandering has gained, ns. */
static s64 wandered(u64 raw)
{
	u64 second = raw / NSEC_PER_SEC, n = min_t(u64, second, WALKS - 1);

	return div_s64(walked[n].gained +
		       div_s64(walked[n].rate * (s64)(raw - n * NSEC_PER_SEC), NSEC_PER_SEC), 1000000);
}

static u64 shown(u64 raw)
{
	s64 lost = div_s64((s64)(raw / 1000) * ppb, 1000000);

	return (u64)base * NSEC_PER_SEC + raw - lost + wandered(raw) + ahead;
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

/* Pulses come at the whole seconds of what it shows without `ahead`: they are the truth's, and the clock's error shows in their stamps. */
static struct hrtimer pulses;

/* When the next pulse is due, ns; timers come late by as much. */
#define LATE_NS 2000
static u64 until_pulse(void)
{
	u64 rest;

	div64_u64_rem(shown(ktime_get_raw_ns()) - ahead, NSEC_PER_SEC, &rest);
	return NSEC_PER_SEC - rest + LATE_NS;
}

static enum hrtimer_restart pulse(struct hrtimer *timer)
{
	u64 second = div_u64(shown(ktime_get_raw_ns()) - ahead, NSEC_PER_SEC);
	struct ptp_clock_event event = {
		.type = PTP_CLOCK_EXTTS,
		.index = 1,
		.timestamp = second * NSEC_PER_SEC + ahead,
	};
	static u64 last;

	/* By a timer that came too early a second would come twice. */
	if (second != last)
		ptp_clock_event(clock, &event);
	last = second;
	hrtimer_forward_now(timer, ns_to_ktime(until_pulse()));
	return HRTIMER_RESTART;
}

static int enable(struct ptp_clock_info *info, struct ptp_clock_request *request, int on)
{
	if (request->type != PTP_CLK_REQ_EXTTS)
		return -EOPNOTSUPP;
	/* Nothing is connected to channel 0. */
	if (request->extts.index != 1)
		return 0;
	if (on)
		hrtimer_start(&pulses, ns_to_ktime(until_pulse()), HRTIMER_MODE_REL_SOFT);
	else
		hrtimer_cancel(&pulses);
	return 0;
}

static struct ptp_clock_info info = {
	.owner = THIS_MODULE,
	.name = "vm_ptp",
	.settime64 = set_time,
	.adjtime = adjust_time,
	.adjfine = adjust_rate,
	.n_ext_ts = 2,
	.enable = enable,
};

/* The two ends of the wire. */
static struct net_device *card[2];
/* Frames on their way. */
static atomic_t under_way = ATOMIC_INIT(0);

struct card {
	int number;
	struct hwtstamp_config set;
};

/* Frame on its way from one card to the other. */
struct frame {
	struct hrtimer timer;
	struct sk_buff *skb;
	int from;
	/* Whether it has left, and the card's stamp of when it reaches the other end. */
	bool has_left;
	struct skb_shared_hwtstamps came;
};

static struct skb_shared_hwtstamps stamp_of(u64 raw)
{
	struct skb_shared_hwtstamps stamp = { .hwtstamp = ns_to_ktime(shown(raw)) };

	return stamp;
}

/* Bytes of a frame with its check sequence at 100 Mbit/s, ns. */
static long length_of(const struct sk_buff *skb)
{
	return (skb->len + 4) * 80;
}

/* What a frame waits on the wire, ns: of a queue's lengths the short ones come most often. */
static long queued(void)
{
	static u64 state;
	u64 part;

	if (!busy)
		return 0;
	if (!state)
		state = seed + 1;
	part = chance(&state) >> 8;
	part = part * part >> 16;
	return (long)((part * part >> 16) * busy >> 16);
}

/* When a frame that leaves now reaches the other end, by the raw clock; none passes another. */
static u64 reaches(int from, u64 now)
{
	static u64 last[2];
	u64 at = now + wire + queued();

	last[from] = max(at, last[from] + 1);
	return last[from];
}

/* It passes onto the wire; how long it is until the other end's driver has it. */
static long leave(struct frame *frame)
{
	struct card *from = netdev_priv(card[frame->from]);
	struct sk_buff *skb = frame->skb, *copy;
	u64 now = ktime_get_raw_ns(), there = reaches(frame->from, now);
	long wait = there - now + length_of(skb);

	if (skb_shinfo(skb)->tx_flags & SKBTX_IN_PROGRESS && from->set.tx_type != HWTSTAMP_TX_OFF &&
	    !mute) {
		struct skb_shared_hwtstamps stamp = stamp_of(now);

		skb_tstamp_tx(skb, &stamp);
	}
	/* Its sender may have a report with the same bytes. */
	copy = skb_copy(skb, GFP_ATOMIC);
	consume_skb(skb);
	frame->skb = copy;
	frame->has_left = true;
	if (frame->from == 1)
		ahead += jump;
	frame->came = stamp_of(there);
	if (frame->from == 1) {
		/* By chance, as on any computer: lengths in turn would meet a program of even pace with the same few. */
		static u64 state;

		if (!state)
			state = seed + 2;
		wait += interrupt + (chance(&state) * late >> 24);
	}
	return wait;
}

static enum hrtimer_restart passes(struct hrtimer *timer)
{
	struct frame *frame = container_of(timer, struct frame, timer);
	struct net_device *to = card[!frame->from];
	struct card *other = netdev_priv(to);
	struct sk_buff *skb;

	if (!frame->has_left) {
		hrtimer_forward_now(timer, ns_to_ktime(leave(frame)));
		return HRTIMER_RESTART;
	}
	skb = frame->skb;
	if (skb && netif_running(to)) {
		skb->protocol = eth_type_trans(skb, to);
		skb_scrub_packet(skb, true);
		if (other->set.rx_filter != HWTSTAMP_FILTER_NONE && !mute)
			*skb_hwtstamps(skb) = frame->came;
		netif_rx(skb);
	} else {
		kfree_skb(skb);
	}
	kfree(frame);
	atomic_dec(&under_way);
	return HRTIMER_NORESTART;
}

static netdev_tx_t card_send(struct sk_buff *skb, struct net_device *device)
{
	struct card *from = netdev_priv(device);
	struct frame *frame = kzalloc(sizeof(*frame), GFP_ATOMIC);
	long wait = queue;

	if (!frame) {
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	if (skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP)
		skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
	skb_tx_timestamp(skb);
	frame->skb = skb;
	frame->from = from->number;
	hrtimer_init(&frame->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	frame->timer.function = passes;
	atomic_inc(&under_way);
	if (frame->from == 1)
		wait = leave(frame);
	hrtimer_start(&frame->timer, ns_to_ktime(wait), HRTIMER_MODE_REL_SOFT);
	return NETDEV_TX_OK;
}

static int card_ioctl(struct net_device *device, struct ifreq *request, int number)
{
	struct card *own = netdev_priv(device);
	struct hwtstamp_config set;

	switch (number) {
	case SIOCGHWTSTAMP:
		break;
	case SIOCSHWTSTAMP:
		if (copy_from_user(&set, request->ifr_data, sizeof(set)))
			return -EFAULT;
		if (set.tx_type != HWTSTAMP_TX_OFF && set.tx_type != HWTSTAMP_TX_ON)
			return -ERANGE;
		if (set.rx_filter != HWTSTAMP_FILTER_NONE)
			set.rx_filter = HWTSTAMP_FILTER_ALL;
		own->set = set;
		break;
	default:
		return -EOPNOTSUPP;
	}
	return copy_to_user(request->ifr_data, &own->set, sizeof(own->set)) ? -EFAULT : 0;
}

static const struct net_device_ops card_operations = {
	.ndo_start_xmit = card_send,
	.ndo_eth_ioctl = card_ioctl,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static int card_stamps(struct net_device *device, struct ethtool_ts_info *told)
{
	told->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_RX_SOFTWARE |
		SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_TX_HARDWARE |
		SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	told->phc_index = ptp_clock_index(clock);
	told->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	told->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_ALL);
	return 0;
}

static int card_link(struct net_device *device, struct ethtool_link_ksettings *told)
{
	told->base.speed = SPEED_100;
	told->base.duplex = DUPLEX_FULL;
	return 0;
}

static const struct ethtool_ops card_questions = {
	.get_ts_info = card_stamps,
	.get_link_ksettings = card_link,
	.get_link = ethtool_op_get_link,
};

static void card_setup(struct net_device *device)
{
	ether_setup(device);
	eth_hw_addr_random(device);
	device->netdev_ops = &card_operations;
	device->ethtool_ops = &card_questions;
	device->priv_flags |= IFF_NO_QUEUE;
}

static void remove_cards(void)
{
	int n;

	for (n = 0; n < 2; n++)
		if (card[n])
			unregister_netdev(card[n]);
	/* What is still on its way knows them. */
	while (atomic_read(&under_way))
		msleep(1);
	for (n = 0; n < 2; n++)
		if (card[n])
			free_netdev(card[n]);
}

static int make_cards(void)
{
	int n, error;

	for (n = 0; n < 2; n++) {
		struct net_device *device =
			alloc_netdev(sizeof(struct card), "card%d", NET_NAME_UNKNOWN, card_setup);

		if (!device)
			return -ENOMEM;
		((struct card *)netdev_priv(device))->number = n;
		error = register_netdev(device);
		if (error) {
			free_netdev(device);
			return error;
		}
		card[n] = device;
	}
	return 0;
}

static int __init vm_ptp_init(void)
{
	int error;

	if (way == 0)
		info.getcrosststamp = cross_stamp;
	if (way <= 1)
		info.gettimex64 = get_time_between;
	else
		info.gettime64 = get_time;
	error = make_walk();
	if (error)
		return error;
	hrtimer_init(&pulses, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	pulses.function = pulse;
	clock = ptp_clock_register(&info, NULL);
	error = PTR_ERR_OR_ZERO(clock);
	if (error || !clock || !cards)
		goto out;
	error = make_cards();
	if (error) {
		remove_cards();
		ptp_clock_unregister(clock);
	}
out:
	if (error)
		vfree(walked);
	return error;
}

static void __exit vm_ptp_exit(void)
{
	hrtimer_cancel(&pulses);
	remove_cards();
	ptp_clock_unregister(clock);
	vfree(walked);
}

module_init(vm_ptp_init);
module_exit(vm_ptp_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A PTP hardware clock of known error, and cards that stamp by it, for tests in a virtual machine");
