package driverconfig

import "strings"

// Qemu is the config of qemu, which runs a virtual machine. The keys and their
// meaning are those that Nomad documents for this driver.
var Qemu = &Schema{"qemu", []Setting{
	{Key: "image_path", Kind: String, Required: true, Doc: "Image of the machine's disk: a path in the task's directory, or its `local` directory. Another path of the host must be below one of `image_paths` in the agent's configuration; such an image is not changed."},
	{Key: "drive_interface", Kind: String, Want: oneOf("ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio", "none"), Doc: "How the machine sees the disk: `ide`, `scsi`, `sd`, `mtd`, `floppy`, `pflash`, `virtio` or `none`. Default: `ide`."},
	{Key: "accelerator", Kind: String, Want: oneOf("tcg", "kvm"), Doc: "`tcg`, the default, or `kvm`, on nodes with the attribute `driver.qemu.kvm`."},
	{Key: "graceful_shutdown", Kind: Bool, Doc: "Press the machine's power button when the task is to end, and end QEMU only after `kill_timeout`."},
	{Key: "guest_agent", Kind: Bool, Doc: "Give the machine a port for the QEMU guest agent; `qa.sock` in the task's directory is its other end."},
	{Key: "port_map", Kind: Map, Want: port, Doc: "Ports of the machine by labels of ports of the group's `network` block, which lead to them, for TCP and UDP."},
	{Key: "args", Kind: Strings, Want: noZero, Doc: "Further arguments of QEMU. The agent's configuration may say which: `args_allowlist`."},
}}

// noZero wants a text without a zero byte, which would end it.
func noZero(s string) string {
	if strings.ContainsRune(s, 0) {
		return "a text without a zero byte"
	}
	return ""
}
