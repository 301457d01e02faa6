//go:build faults

package csi_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"berth"
	"berth/examples/csi/disk"
	"berth/internal/agent/csi"
	"berth/internal/eventually"
	"berth/internal/failpoint"
	"berth/op"
)

// Roles of this program beside that of the test: the plugin, and an agent that
// mounts or unmounts and is killed on the way.
func TestMain(m *testing.M) {
	dir := os.Getenv("CSI_TEST_DIR")
	switch os.Getenv("CSI_TEST_ROLE") {
	case "plugin":
		p := &disk.Plugin{Root: filepath.Join(dir, "provider"), Node: "n1"}
		fmt.Fprintln(os.Stderr, p.Serve(os.Getenv("CSI_ENDPOINT"), grpc.UnaryInterceptor(dying(dir))))
		os.Exit(1)
	case "mount", "unmount":
		m, _ := open(dir)
		ctx, cancel := context.WithCancel(context.Background())
		go m.Watch(ctx, plugin())
		if err := well(m); err != nil {
			panic(err)
		}
		err := act(m, os.Getenv("CSI_TEST_ROLE"))
		cancel()
		fmt.Fprintln(os.Stderr, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dying kills the plugin, as kill -9 does, before or after the call that the file
// "die" names, once.
func dying(dir string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
		at := func(when string) {
			file := filepath.Join(dir, "die")
			b, _ := os.ReadFile(file)
			if string(b) == when+" "+filepath.Base(info.FullMethod) && os.Remove(file) == nil {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		at("before")
		out, err := do(ctx, in)
		at("after")
		return out, err
	}
}

const alloc = "11111111-2222-3333-4444-555555555555"

// open opens the volumes of the node.
func open(dir string) (*csi.Manager, *atomic.Bool) {
	over := &atomic.Bool{}
	m := csi.Open(csi.Config{
		Dir: filepath.Join(dir, "node"), Changed: func() {}, Over: func(string) bool { return over.Load() }, Log: slog.New(slog.DiscardHandler),
	})
	return m, over
}

// plugin is the task that is the plugin.
func plugin() csi.Plugin {
	return csi.Plugin{Alloc: "plugin", Task: "task", ID: "disk", Type: csi.TypeMonolith, Health: 1 << 62}
}

// well waits until the plugin is.
func well(m *csi.Manager) error {
	for {
		if _, nodes := m.Plugins(); nodes["disk"] != nil && nodes["disk"].Healthy {
			return nil
		}
		<-time.After(10 * time.Millisecond)
	}
}

// act mounts or unmounts the volume.
func act(m *csi.Manager, what string) error {
	if what == "unmount" {
		return m.Unmount(context.Background(), alloc, "default", "data")
	}
	_, err := m.Mount(context.Background(), alloc, granted())
	return err
}

// attachment is how the volume is attached, in all processes of a test.
func attachment() string {
	if os.Getenv("CSI_TEST_BLOCK") != "" {
		return berth.AttachBlock
	}
	return berth.AttachFilesystem
}

// granted is the claim on the volume.
func granted() *op.GrantedClaim {
	return &op.GrantedClaim{
		Published: true, AccessMode: berth.AccessWriter, AttachmentMode: attachment(), Context: map[string]string{"attached-to": "n1"},
		Volume: berth.CSIVolume{Namespace: "default", ID: "data", Name: "data", PluginID: "disk", ExternalID: "data"},
	}
}

// world is a node with the plugin as a process of its own, started again whenever
// it ends.
type world struct {
	t   *testing.T
	dir string
	m   *csi.Manager
	end context.CancelFunc
}

func newWorld(t *testing.T) *world {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir, err := os.MkdirTemp("", "csi") // short, as paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir}
	m, _ := open(w.dir)
	if err := m.MakeDirs("plugin", "task", "disk"); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	over := make(chan struct{})
	socket := filepath.Join(m.SocketDir("plugin", "task"), "csi.sock")
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			c := exec.CommandContext(ctx, os.Args[0])
			c.Env = append(os.Environ(), "CSI_TEST_ROLE=plugin", "CSI_TEST_DIR="+w.dir, "CSI_ENDPOINT=unix://"+socket)
			_ = c.Run()
		}
	}()
	t.Cleanup(func() {
		end()
		<-over
		for _, dir := range w.mounts() {
			t.Errorf("%s is left mounted", dir)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
		_ = os.RemoveAll(dir)
	})
	w.begin()
	return w
}

// begin ends the agent of the node, if it runs, and starts a new one.
func (w *world) begin() {
	if w.end != nil {
		w.end()
	}
	w.m, _ = open(w.dir)
	ctx, end := context.WithCancel(w.t.Context())
	w.end = end
	go w.m.Watch(ctx, plugin())
	if err := well(w.m); err != nil {
		w.t.Fatal(err)
	}
}

// mounts are the mounts below the world's directory.
func (w *world) mounts() (out []string) {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); strings.HasPrefix(f[4], w.dir+"/") {
			out = append(out, f[4])
		}
	}
	slices.Reverse(out)
	return out
}

// log is what the provider changed.
func (w *world) log() []string {
	b, _ := os.ReadFile(filepath.Join(w.dir, "provider", "log"))
	return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(b)), " ", ":"))
}

// calls has the controller do something until it is done: it may be starting.
func (w *world) calls(in *op.AgentCSI) *op.CSIDone {
	w.t.Helper()
	in.Volume.PluginID, in.AccessMode, in.AttachmentMode = "disk", berth.AccessWriter, attachment()
	in.Volume.RequestedCapabilities = []berth.VolumeCapability{{AccessMode: in.AccessMode, AttachmentMode: in.AttachmentMode}}
	var out *op.CSIDone
	eventually.True(w.t, in.Do, func() bool {
		var err error
		out, err = w.m.Call(w.t.Context(), in)
		return err == nil
	})
	return out
}

// A volume is made, attached, mounted, unmounted and detached, and the plugin is
// killed at each call. Everything is done once, and nothing is left.
func TestThePluginIsKilledAtEachCall(t *testing.T) {
	for _, method := range []string{
		"CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume",
		"ControllerUnpublishVolume", "DeleteVolume",
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+method, func(t *testing.T) {
				w := newWorld(t)
				if err := os.WriteFile(filepath.Join(w.dir, "die"), []byte(when+" "+method), 0o600); err != nil {
					t.Fatal(err)
				}
				w.life("")
			})
		}
	}
}

// The agent is killed at each step of mounting and unmounting. The next one
// finishes it.
func TestTheAgentIsKilledAtEachStep(t *testing.T) {
	for _, point := range []string{"csi/recorded", "csi/staged", "csi/published", "csi/unpublished", "csi/unstaged"} {
		t.Run(point, func(t *testing.T) { newWorld(t).life(point) })
	}
}

// life takes a volume through its life. An agent that mounts or unmounts is killed
// at a fail point.
func (w *world) life(point string) {
	t := w.t
	v := berth.CSIVolume{Namespace: "default", ID: "data", Name: "data", ExternalID: "data"}
	if made := w.calls(&op.AgentCSI{Do: op.CSICreate, Volume: v}); made.Volume.ExternalID != "data" || made.Volume.Context["made-by"] != "disk" {
		t.Errorf("%+v", made.Volume)
	}
	if got := w.calls(&op.AgentCSI{Do: op.CSIPublish, Volume: v, ExternalNodeID: "n1"}); got.Context["attached-to"] != "n1" {
		t.Errorf("%+v", got)
	}
	w.killed(point, "mount")
	var path string
	eventually.True(t, "mount", func() bool {
		var err error
		path, err = w.m.Mount(t.Context(), alloc, granted())
		return err == nil
	})
	kept := filepath.Join(w.dir, "provider", "volumes", "data", "data", "kept")
	if attachment() == berth.AttachBlock {
		kept = filepath.Join(w.dir, "provider", "volumes", "data", "disk")
		w.writes(path)
	} else if err := os.WriteFile(filepath.Join(path, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.killed(point, "unmount")
	eventually.True(t, "unmount", func() bool { return act(w.m, "unmount") == nil })
	w.calls(&op.AgentCSI{Do: op.CSIUnpublish, Volume: v, ExternalNodeID: "n1"})
	if b, err := os.ReadFile(kept); err != nil || strings.TrimRight(string(b), "\x00") != "x" {
		t.Errorf("what was written is gone: %v", err)
	}
	w.calls(&op.AgentCSI{Do: op.CSIDelete, Volume: v})
	want := []string{"create:data", "attach:data:n1", "stage:data:n1", "mount:data:n1", "unmount:data:n1", "unstage:data:n1", "detach:data:n1", "delete:data"}
	if got := w.log(); !slices.Equal(got, want) {
		t.Errorf("the provider did %q", got)
	}
	for _, dir := range []string{"v/*/stage/*", "v/*/alloc/*"} {
		if left, _ := filepath.Glob(filepath.Join(w.dir, "node", dir)); len(left) > 0 {
			t.Errorf("%q are left", left)
		}
	}
}

// killed has another process do something, which is killed at a fail point if it
// passes that.
func (w *world) killed(point, what string) {
	if point == "" {
		return
	}
	w.end()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "CSI_TEST_ROLE="+what, "CSI_TEST_DIR="+w.dir, failpoint.Env+"="+point+"=exit")
	out, err := c.CombinedOutput()
	if mounts := strings.HasSuffix(point, "ed") && (point == "csi/recorded" || point == "csi/staged" || point == "csi/published"); mounts == (what == "mount") {
		if c.ProcessState.ExitCode() != failpoint.ExitCode {
			w.t.Fatalf("the agent was not killed at %s: %v\n%s", point, err, out)
		}
	}
	w.begin()
}

// Snapshots and expansion reach the provider, and what is refused is of its kind.
func TestSnapshotsAndExpansion(t *testing.T) {
	w := newWorld(t)
	v := berth.CSIVolume{Namespace: "default", ID: "data", Name: "data", ExternalID: "data", RequestedCapacityMin: 1 << 20}
	if got := w.calls(&op.AgentCSI{Do: op.CSICreate, Volume: v}); got.Volume.Capacity != 1<<20 {
		t.Errorf("%+v", got.Volume)
	}
	s := w.calls(&op.AgentCSI{Do: op.CSISnapshotCreate, Volume: v, Name: "before"})
	if len(s.Snapshots) != 1 || s.Snapshots[0].ExternalSourceVolumeID != "data" || !s.Snapshots[0].IsReady {
		t.Errorf("%+v", s.Snapshots)
	}
	if l := w.calls(&op.AgentCSI{Do: op.CSISnapshotList}); len(l.Snapshots) != 1 || l.Snapshots[0].ID != "before" {
		t.Errorf("%+v", l.Snapshots)
	}
	v.RequestedCapacityMin = 2 << 20
	if got := w.calls(&op.AgentCSI{Do: op.CSIExpand, Volume: v}); got.Volume.Capacity != 2<<20 {
		t.Errorf("%+v", got.Volume)
	}
	copied := berth.CSIVolume{Namespace: "default", ID: "copy", Name: "copy", SnapshotID: "before"}
	w.calls(&op.AgentCSI{Do: op.CSICreate, Volume: copied})
	if l := w.calls(&op.AgentCSI{Do: op.CSIList}); len(l.Volumes) != 2 {
		t.Errorf("%+v", l.Volumes)
	}
	w.calls(&op.AgentCSI{Do: op.CSISnapshotDelete, SnapshotID: "before"})
	copied.SnapshotID, copied.Name, copied.PluginID = "gone", "again", "disk"
	if _, err := w.m.Call(t.Context(), &op.AgentCSI{Do: op.CSICreate, Volume: copied}); berth.KindOf(err) != berth.NotFound {
		t.Errorf("a volume of nothing: %v", err)
	}
	copied.Name = "../escape"
	if _, err := w.m.Call(t.Context(), &op.AgentCSI{Do: op.CSICreate, Volume: copied}); berth.KindOf(err) != berth.Invalid {
		t.Errorf("a name that leads out: %v", err)
	}
}
