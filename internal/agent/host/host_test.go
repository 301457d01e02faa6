package host

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/agent/driver"
	_ "berth/internal/onethread"
	"berth/op"
)

func TestTimesOfProcessors(t *testing.T) {
	before := parseTimes("cpu  9 9 9 9\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu10 1 1 1 1\nintr 5\n")
	now := parseTimes("cpu0 150 10 80 820 60 5 5 0 40 0\ncpu10 1 1 1 1\ncpu2 0 0 0 4 0 0 0 4 0 0\n")
	want := []op.HostCPU{{CPU: "cpu0", User: 60.0 / 130 * 100, System: 40.0 / 130 * 100, Idle: 30.0 / 130 * 100}, {CPU: "cpu2", System: 50, Idle: 50}, {CPU: "cpu10", Idle: 100}}
	if got := usesOf(before, now); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := parseTimes("cpu0 1 x 3 4\n"); got != nil {
		t.Errorf("got %v from what is no number", got)
	}
}

func TestFileSystems(t *testing.T) {
	const info = `21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 8:1 /var/lib /mnt/bind rw - ext4 /dev/sda1 rw
24 21 8:2 / /data\040disk rw - xfs /dev/sdb1 rw
25 21 0:40 / /data\040disk/tmp rw - tmpfs tmpfs rw
26 21 7:0 / /snap rw - squashfs /dev/loop0 ro
broken
`
	all := parseMounts(info)
	kinds := virtualKinds("nodev\tproc\nnodev\ttmpfs\n\text4\n\txfs\nnodev\tsquashfs\n")
	var points []string
	for _, m := range onDevices(all, kinds) {
		points = append(points, m.device+" "+m.point)
	}
	if got, want := strings.Join(points, ", "), "/dev/sda1 /, /dev/sdb1 /data disk"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for dir, want := range map[string]string{"/": "/", "/data": "/", "/data disk/a": "/data disk", "/data disk/tmp": "/data disk/tmp", "/data disk2": "/"} {
		if got := mountOf(all, dir).point; got != want {
			t.Errorf("%s is on %s, want %s", dir, got, want)
		}
	}
	got := figures(mount{device: "d", point: "p"}, 4096, 100, 40, 20, 10, 9)
	want := op.HostDisk{Device: "d", Mountpoint: "p", Size: 409600, Used: 245760, Available: 81920, UsedPercent: 75, InodesUsedPercent: 10}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := figures(mount{}, 4096, 0, 0, 0, 0, 0); got != (op.HostDisk{}) {
		t.Errorf("an empty file system: %+v", got)
	}
}

// The real machine.
func TestThisMachine(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir, 1000).Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := s.AllocDirStats
	if s.Memory.Total == 0 || s.Memory.Available > s.Memory.Total || len(s.CPU) == 0 || s.Uptime == 0 || d.Size == 0 || d.UsedPercent <= 0 || !strings.HasPrefix(dir, d.Mountpoint) {
		t.Errorf("memory %+v, processors %+v, uptime %d, disk %+v", s.Memory, s.CPU, s.Uptime, d)
	}
	for _, c := range s.CPU {
		if sum := c.User + c.System + c.Idle; sum < 99.9 || sum > 100.1 {
			t.Errorf("%s adds up to %v %%", c.CPU, sum)
		}
	}
	if _, err := New(dir+"/none", 1).Disk(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// The first pair takes a quarter of a second, later ones none; what is compared
// is between a second and a minute old, or as old as it can be.
func TestPairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Sampler[time.Time]
		now := func(context.Context) (time.Time, error) { return time.Now(), nil }
		for i, c := range []struct{ after, takes, apart time.Duration }{
			{0, shortly, shortly},
			{500 * time.Millisecond, 0, 750 * time.Millisecond},
			{2 * time.Second, 0, 2 * time.Second},
			{100 * time.Millisecond, 0, 2100 * time.Millisecond},
			{30 * time.Second, 0, 30 * time.Second},
			{2 * time.Minute, 0, 2 * time.Minute},
			{mostApart + time.Second, 0, 0},
		} {
			time.Sleep(c.after)
			began := time.Now()
			before, after, apart, err := s.Pair(t.Context(), now)
			if c.after > mostApart { // too old
				c.takes, c.apart = shortly, shortly
			}
			if err != nil || apart != c.apart || after.Sub(before) != apart || time.Since(began) != c.takes {
				t.Errorf("%d: %v apart after %v, %v; want %v after %v", i, apart, time.Since(began), err, c.apart, c.takes)
			}
		}
		broken := errors.New("broken")
		if _, _, _, err := s.Pair(t.Context(), func(context.Context) (time.Time, error) { return time.Time{}, broken }); err != broken {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, _, err := new(Sampler[time.Time]).Pair(ctx, now); !errors.Is(err, context.Canceled) {
			t.Errorf("without a caller: %v", err)
		}
	})
}

func TestUseOfTasks(t *testing.T) {
	before := map[string]driver.Usage{
		"busy":  {CPU: 10 * time.Second, System: time.Second, Each: map[int]driver.Usage{7: {CPU: 10 * time.Second, System: time.Second}}},
		"again": {CPU: time.Hour},
	}
	now := map[string]driver.Usage{
		"busy":  {Memory: 4096, CPU: 11 * time.Second, System: 1500 * time.Millisecond, Each: map[int]driver.Usage{7: {Memory: 4096, CPU: 11 * time.Second, System: 1500 * time.Millisecond}}},
		"again": {Memory: 100, Cache: 5, CPU: time.Second, Engine: true, ThrottledPeriods: 3}, // it was started again
	}
	at := time.Unix(5, 0)
	u := UsageOf(before, now, 2*time.Second, at, 3000)
	busy, again := u.Tasks["busy"], u.Tasks["again"]
	if c := busy.ResourceUsage.CpuStats; c.Percent != 50 || c.SystemMode != 25 || c.UserMode != 25 || c.TotalTicks != 1500 {
		t.Errorf("busy: %+v", c)
	}
	if p := busy.Pids["7"]; p == nil || p.CpuStats.Percent != 50 || p.MemoryStats.RSS != 4096 {
		t.Errorf("its process: %+v", p)
	}
	if c := again.ResourceUsage.CpuStats; c.Percent != 0 || c.ThrottledPeriods != 3 {
		t.Errorf("again: %+v", c)
	}
	if s := u.ResourceUsage; s.MemoryStats.RSS != 4196 || s.CpuStats.Percent != 50 || strings.Join(s.MemoryStats.Measured, ",") != "Cache,Max Usage,RSS,Swap,Usage" || u.Timestamp != at.UnixNano() {
		t.Errorf("in all: %+v %+v at %d", s.MemoryStats, s.CpuStats, u.Timestamp)
	}
	if none := UsageOf(nil, nil, 0, at, 1); none.ResourceUsage.MemoryStats.RSS != 0 || len(none.Tasks) != 0 {
		t.Errorf("no tasks: %+v", none)
	}
}
