// SPDX-License-Identifier: GPL-2.0
/*
 * Stops the machine when it is loaded, and is then gone: tells QEMU of a panic by the port of its device "pvpanic",
 * which waits (-action panic=pause) until somebody has written the machine's state and lets it go on. Without such a
 * device nothing happens.
 */
#include <asm/io.h>
#include <linux/errno.h>
#include <linux/module.h>

static int __init vm_pause_init(void)
{
	outb(1, 0x505);
	return -ENODEV;
}
module_init(vm_pause_init);

MODULE_DESCRIPTION("Stops the virtual machine once");
MODULE_LICENSE("GPL");
