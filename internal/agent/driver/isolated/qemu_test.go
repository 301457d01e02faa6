package isolated

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth"
	"berth/internal/agent/driver"
	"berth/internal/agent/driver/drivertest"
	"berth/internal/agent/logs"
	"berth/internal/eventually"
	"berth/internal/freeport"
)

// The machines of the tests boot from one sector, whose code is written here.

// says prints a text to the first serial port.
func says(text string) []byte {
	code := []byte{0xba, 0xf8, 0x03} // mov dx, 0x3f8
	for _, c := range []byte(text) {
		code = append(code, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	return code
}

// off turns the machine's power off: QEMU ends with code 0.
var off = []byte{0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef} // mov dx, 0x604; mov ax, 0x2000; out dx, ax

// exits ends QEMU with an odd code by the device that [exitDevice] adds.
func exits(code int) []byte {
	if code == 0 {
		return off
	}
	return []byte{0xba, 0xf4, 0x00, 0xb0, byte(code / 2), 0xee} // mov dx, 0xf4; mov al, code/2; out dx, al
}

// button waits until the power button is pressed.
var button = []byte{
	0xba, 0x02, 0x06, 0xb8, 0x00, 0x01, 0xef, // mov dx, 0x602; mov ax, 0x100; out dx, ax: tell of it
	0xba, 0x00, 0x06, // mov dx, 0x600
	0xed, 0xf6, 0xc4, 0x01, // in ax, dx; test ah, 1
	0x74, 0xf7, // jz to mov dx
}

// sector makes an image that runs code and then waits for ever.
func sector(code ...[]byte) []byte {
	b := append([]byte{0xfa}, slices.Concat(code...)...) // cli
	b = append(b, 0xf4, 0xeb, 0xfd)                      // hlt; jmp to it
	b = append(b, make([]byte, 510-len(b))...)
	return append(b, 0x55, 0xaa)
}

// images are those that tasks find in their directory.
var images = map[string][]byte{
	"run.img": sector(says("ready\n")), "print.img": sector(says("to stdout"), off), "button.img": sector(says("ready\n"), button, says("pressed\n"), off),
	"again.img": sector(says("again"), off), "0.img": sector(exits(0)), "1.img": sector(exits(1)), "9.img": sector(exits(9)), "43.img": sector(exits(43)),
}

// boots is the config of a machine. Firmware prints nothing there.
func boots(image string, more ...any) map[string]any {
	c := map[string]any{"image_path": image, "args": []any{"-machine", "graphics=on", "-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"}}
	for i := 0; i < len(more); i += 2 {
		c[more[i].(string)] = more[i+1]
	}
	return c
}

// withImages is a driver whose tasks find the images.
type withImages struct{ *Qemu }

func (d withImages) Start(ctx context.Context, t *driver.Task) (driver.Handle, error) {
	for name, b := range images {
		if err := t.AllocDir.Replace("task/local/"+name, b, 0o600); err != nil {
			return nil, err
		}
	}
	return d.Qemu.Start(ctx, t)
}

// needsQemu skips a test where no task can be isolated, and fails it where QEMU
// is missing.
func needsQemu(t *testing.T) {
	t.Helper()
	needs(t, Exec(Config{}))
	if info := NewQemu(QemuConfig{}).Fingerprint(t.Context()); !info.Healthy || info.Attributes["driver.qemu.version"] == "" {
		t.Fatalf("%+v: make deps installs qemu-system-x86", info)
	}
}

func TestQemuContract(t *testing.T) {
	needsQemu(t)
	s := suite()
	s.New = func() driver.Driver { return withImages{NewQemu(QemuConfig{})} }
	s.Disabled = func() driver.Driver { return withImages{NewQemu(QemuConfig{Disabled: true})} }
	s.Runs, s.Deaf, s.DeafSays, s.Shell, s.Program, s.Limited = boots("run.img"), boots("local/run.img", "graceful_shutdown", true), "ready", nil, nil, false
	s.Ends = func(code int) map[string]any { return boots(strconv.Itoa(code) + ".img") }
	s.Prints = func(stdout, _ string) map[string]any {
		if stdout == "again" {
			return boots("again.img")
		}
		return boots("print.img")
	}
	s.Codes, s.OneStream = []int{0, 1, 43}, true
	s.Refused = []map[string]any{
		nil, {"image_path": "none.img"}, {"image_path": "../../etc/passwd"}, {"image_path": "/etc/passwd"}, {"image_path": "/local"}, {"image_path": "/alloc/none"}, {"image_path": "a\x00"},
		boots("run.img", "drive_interface", "usb"), boots("run.img", "accelerator", "hvf"), boots("run.img", "port_map", map[string]any{"none": 80}),
		boots("run.img", "args", []any{"a\x00b"}),
	}
	drivertest.Run(t, s)
}

// runs starts a machine and returns it.
func runs(t *testing.T, q *Qemu, task *driver.Task) driver.Handle {
	t.Helper()
	h, err := withImages{q}.Start(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ended returns how a machine ended.
func ended(t *testing.T, h driver.Handle) *driver.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	x, err := h.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// newMachine makes a task of an allocation of its own.
func newMachine(t *testing.T, config map[string]any) *driver.Task {
	s := suite()
	return s.Alloc(t)(1, config)
}

// A graceful stop presses the power button, also by an agent that found the
// machine.
func TestAMachineIsAskedToEnd(t *testing.T) {
	needsQemu(t)
	task := newMachine(t, boots("button.img", "graceful_shutdown", true, "guest_agent", true))
	task.Limits.Memory = 64 << 20
	h := runs(t, NewQemu(QemuConfig{}), task)
	eventually.True(t, "the machine runs", func() bool { return strings.Contains(drivertest.Output(t, task, logs.Stdout), "ready\n") })
	if st, err := os.Lstat(filepath.Join(task.Dir, agentSocket)); err != nil || st.Mode().Type() != os.ModeSocket {
		t.Errorf("socket of the guest agent: %v, %v", st, err)
	}
	if err := h.Signal(t.Context(), syscall.SIGHUP); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a signal: %v", err)
	}
	found, err := NewQemu(QemuConfig{}).Recover(t.Context(), task, h.State())
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Stop(t.Context(), syscall.SIGTERM, time.Hour); err != nil {
		t.Fatal(err)
	}
	if x := ended(t, h); !x.Success() {
		t.Errorf("%+v", x)
	}
	if out := drivertest.Output(t, task, logs.Stdout); out != "ready\npressed\n" {
		t.Errorf("%q", out)
	}
}

// Images of the host are used where the configuration allows them, and are not
// changed; links lead to no others.
func TestImagesOfTheHost(t *testing.T) {
	needsQemu(t)
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{filepath.Dir(dir), filepath.Dir(other), dir, other} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, other} {
		if err := os.WriteFile(filepath.Join(d, "disk.img"), images["43.img"], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(other, "disk.img"), filepath.Join(dir, "link.img")); err != nil {
		t.Fatal(err)
	}
	q := NewQemu(QemuConfig{ImagePaths: []string{dir}})
	outside := newMachine(t, boots(filepath.Join(dir, "disk.img")))
	if x := ended(t, runs(t, q, outside)); x.Code != 43 {
		t.Errorf("%+v: %s", x, drivertest.Output(t, outside, logs.Stderr))
	}
	for _, image := range []string{filepath.Join(other, "disk.img"), filepath.Join(dir, "link.img"), dir, filepath.Join(dir, "none.img")} {
		if _, err := q.Start(t.Context(), newMachine(t, boots(image))); berth.KindOf(err) != berth.Denied {
			t.Errorf("%s: %v", image, err)
		}
	}
	task := newMachine(t, boots("link.img"))
	if err := os.Symlink("/etc/passwd", filepath.Join(task.Dir, "local", "link.img")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Start(t.Context(), task); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a link: %v", err)
	}
}

// Ports of the group lead to the machine.
func TestPortsOfAMachine(t *testing.T) {
	needsQemu(t)
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	task := newMachine(t, boots("run.img", "port_map", map[string]any{"ssh": 22}))
	task.Ports = []berth.PortMapping{{Label: "ssh", Value: port, HostIP: "127.0.0.1"}}
	h := runs(t, NewQemu(QemuConfig{}), task)
	eventually.True(t, "the port is open", func() bool {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if err := h.Stop(t.Context(), syscall.SIGKILL, 0); err != nil {
		t.Error(err)
	}
	ended(t, h)
}

// What args name is looked for in the task's file tree, which has no secrets of
// the host; and the configuration can say which options there may be.
func TestAdvisory_C31_ArgsReachNothingOfTheHost(t *testing.T) {
	needsQemu(t)
	task := newMachine(t, boots("run.img", "args", []any{"-drive", "file=/etc/shadow,format=raw"}))
	if x := ended(t, runs(t, NewQemu(QemuConfig{}), task)); x.Code != 1 {
		t.Errorf("%+v", x)
	}
	if out := drivertest.Output(t, task, logs.Stderr); !strings.Contains(out, "/etc/shadow") || !strings.Contains(out, "No such file") {
		t.Errorf("%q", out)
	}
	q := NewQemu(QemuConfig{Args: []string{"-smp"}})
	for args, want := range map[string]berth.Kind{"-smp": "", "--smp": "", "-drive": berth.Denied} {
		tk := newMachine(t, boots("0.img", "args", []any{args, "2"}))
		h, err := withImages{q}.Start(t.Context(), tk)
		if got := berth.KindOf(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%s: %v", args, err)
		}
		if err == nil {
			ended(t, h)
		}
	}
}

func TestFormatsOfImages(t *testing.T) {
	for want, head := range map[string]string{"qcow2": "QFI\xfb\x00\x00\x00\x03", "vmdk": "KDMV", "vhdx": "vhdxfile", "vpc": "conectix", "vdi": strings.Repeat("x", 64) + "\x7f\x10\xda\xbe", "raw": "\xfa"} {
		if got, err := diskFormat(strings.NewReader(head)); got != want || err != nil {
			t.Errorf("%q: %s, %v", head, got, err)
		}
	}
}
