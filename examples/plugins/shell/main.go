// Command shell is an example of an external task driver. Its tasks are scripts for
// a shell:
//
//	task "hello" {
//	  driver = "shell"
//	  config { script = "echo hello $NAME; exec sleep 1000" }
//	}
//
// Build it into the directory that plugin_dir of the agent's configuration names:
//
//	go build -o /opt/berth/plugins/shell ./examples/plugins/shell
//
// A task must outlive this process, and its exit must not be lost while nobody
// watches. So a second process of this program stands above each task, the keeper:
// it runs the script, ends what the script leaves behind, and writes down how it
// ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/internal/agent/plugin"
	wire "berth/internal/agent/plugin/pluginwire"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == keeperWord {
		os.Exit(keep(os.Args[2], os.Args[3], os.Args[4:]))
	}
	d := &driver{shell: "/bin/sh", tasks: map[string]*task{}}
	at := func(method string) string { return wire.DriverService + "/" + method }
	plugin.Serve(map[string]plugin.Handler{
		wire.BaseService + "/PluginInfo":   plugin.Answer(d.info),
		wire.BaseService + "/ConfigSchema": plugin.Answer(d.configSchema),
		wire.BaseService + "/SetConfig":    plugin.Answer(d.setConfig),
		at("TaskConfigSchema"):             plugin.Answer(d.taskSchema),
		at("Capabilities"):                 plugin.Answer(d.capabilities),
		at("Fingerprint"):                  plugin.Tell(d.fingerprint),
		at("RecoverTask"):                  plugin.Answer(d.recover),
		at("StartTask"):                    plugin.Answer(d.start),
		at("WaitTask"):                     plugin.Answer(d.wait),
		at("StopTask"):                     plugin.Answer(d.stop),
		at("DestroyTask"):                  plugin.Answer(d.destroy),
		at("InspectTask"):                  plugin.Answer(d.inspect),
		at("SignalTask"):                   plugin.Answer(d.signal),
		at("TaskStats"):                    plugin.Tell(d.stats),
		at("ExecTaskStreaming"):            plugin.Talk(d.exec),
	})
}

// driver is the driver. Its tasks are those that it started or was told of.
type driver struct {
	shell string

	mu    sync.Mutex
	tasks map[string]*task
}

func (d *driver) info(context.Context, *wire.Empty) (*wire.PluginInfo, error) {
	return &wire.PluginInfo{Type: wire.TypeDriver, APIVersions: []string{wire.APIVersion}, Version: "0.1.0", Name: "shell"}, nil
}

// attr is an attribute of a schema.
func attr(name, kind string, required bool) *wire.Spec {
	return &wire.Spec{Attr: &wire.Attr{Name: name, Type: kind, Required: required}}
}

// or is an attribute with a default.
func or(s *wire.Spec, value string) *wire.Spec {
	return &wire.Spec{Default: &wire.Default{Primary: s, Default: &wire.Spec{Literal: &wire.Literal{Value: value}}}}
}

func (d *driver) configSchema(context.Context, *wire.Empty) (*wire.Schema, error) {
	return &wire.Schema{Spec: &wire.Spec{Object: &wire.Object{Attributes: map[string]*wire.Spec{"shell": or(attr("shell", "string", false), `"/bin/sh"`)}}}}, nil
}

func (d *driver) setConfig(_ context.Context, in *wire.SetConfig) (*wire.Empty, error) {
	var c struct {
		Shell string `json:"shell"`
	}
	if err := plugin.Decode(in.Config, &c); err != nil {
		return nil, err
	}
	if st, err := os.Stat(c.Shell); err != nil || st.Mode()&0o111 == 0 {
		return nil, fmt.Errorf("shell: %q is not a program", c.Shell)
	}
	d.shell = c.Shell
	return &wire.Empty{}, nil
}

// config is the config of a task.
type config struct {
	Script string            `json:"script"`
	Args   []string          `json:"args"`
	Env    map[string]string `json:"env"`
}

func (d *driver) taskSchema(context.Context, *wire.Empty) (*wire.Schema, error) {
	return &wire.Schema{Spec: &wire.Spec{Object: &wire.Object{Attributes: map[string]*wire.Spec{
		"script": attr("script", "string", true),
		"args":   attr("args", "list(string)", false),
		"env":    {BlockAttrs: &wire.BlockAttrs{Name: "env", Type: "string"}},
	}}}}, nil
}

func (d *driver) capabilities(context.Context, *wire.Empty) (*wire.Capabilities, error) {
	return &wire.Capabilities{Capabilities: &wire.DriverCapabilities{SendSignals: true, Exec: true, NoMounts: 1}}, nil
}

func (d *driver) fingerprint(ctx context.Context, _ *wire.Empty, send func(*wire.DriverFingerprint) error) error {
	shell := d.shell
	if err := send(&wire.DriverFingerprint{
		Health: wire.Healthy, HealthDescription: "Healthy", Attributes: map[string]*wire.Attribute{"driver.shell.path": {String: &shell}},
	}); err != nil {
		return err
	}
	<-ctx.Done() // nothing of it changes
	return nil
}

// errNoTask is the answer about a task that the driver does not know.
var errNoTask = errors.New("task not found for given id")

// find returns a task.
func (d *driver) find(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, errNoTask
}

func (d *driver) start(_ context.Context, in *wire.StartTask) (*wire.StartedTask, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if in.Task == nil || d.tasks[in.Task.ID] != nil {
		return &wire.StartedTask{Result: wire.StartFatal, Error: "the task has been started"}, nil
	}
	var c config
	if err := plugin.Decode(in.Task.Config, &c); err != nil {
		return &wire.StartedTask{Result: wire.StartFatal, Error: err.Error()}, nil
	}
	if c.Script == "" {
		return &wire.StartedTask{Result: wire.StartFatal, Error: "script: must not be empty"}, nil
	}
	t := &task{dir: filepath.Join(in.Task.AllocDir, in.Task.Name), conf: in.Task}
	// A file of its own for each launch: its keeper writes down the exit there.
	t.file = filepath.Join(in.Task.AllocDir, in.Task.Name, ".exit-"+in.Task.ID[strings.LastIndexByte(in.Task.ID, '/')+1:])
	if err := t.begin(append([]string{d.shell, "-c", c.Script, d.shell}, c.Args...), c.Env); err != nil {
		return &wire.StartedTask{Result: wire.StartFatal, Error: err.Error()}, nil
	}
	d.tasks[in.Task.ID] = t
	return &wire.StartedTask{Handle: &wire.TaskHandle{Version: 1, State: wire.TaskRunning, Driver: t.state()}}, nil
}

func (d *driver) recover(_ context.Context, in *wire.RecoverTask) (*wire.Empty, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tasks[in.TaskID] != nil {
		return &wire.Empty{}, nil
	}
	if in.Handle == nil || in.Handle.Config == nil {
		return nil, errors.New("no handle is given")
	}
	t := &task{dir: filepath.Join(in.Handle.Config.AllocDir, in.Handle.Config.Name), conf: in.Handle.Config}
	if err := t.read(in.Handle.Driver); err != nil {
		return nil, err
	}
	d.tasks[in.TaskID] = t
	return &wire.Empty{}, nil
}

func (d *driver) wait(ctx context.Context, in *wire.TaskID) (*wire.WaitedTask, error) {
	t, err := d.find(in.TaskID)
	if err != nil {
		return nil, err
	}
	x, err := t.wait(ctx)
	if err != nil {
		return nil, err
	}
	return &wire.WaitedTask{Result: x}, nil
}

func (d *driver) stop(ctx context.Context, in *wire.StopTask) (*wire.Empty, error) {
	t, err := d.find(in.TaskID)
	if err != nil {
		return nil, err
	}
	return &wire.Empty{}, t.stop(ctx, number(in.Signal), in.Timeout.Span())
}

func (d *driver) destroy(ctx context.Context, in *wire.DestroyTask) (*wire.Empty, error) {
	t, err := d.find(in.TaskID)
	if err != nil {
		return nil, err
	}
	if t.runs() {
		if !in.Force {
			return nil, errors.New("the task runs")
		}
		if err := t.stop(ctx, number("SIGKILL"), 0); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, in.TaskID)
	return &wire.Empty{}, nil
}

func (d *driver) inspect(_ context.Context, in *wire.TaskID) (*wire.InspectedTask, error) {
	t, err := d.find(in.TaskID)
	if err != nil {
		return nil, err
	}
	s := &wire.TaskStatus{ID: in.TaskID, Name: t.conf.Name, State: wire.TaskExited}
	if t.runs() {
		s.State = wire.TaskRunning
	} else if st, err := os.Stat(t.file); err == nil {
		s.CompletedAt = wire.NewTime(st.ModTime())
	}
	return &wire.InspectedTask{Task: s}, nil
}

func (d *driver) signal(_ context.Context, in *wire.SignalTask) (*wire.Empty, error) {
	t, err := d.find(in.TaskID)
	if err != nil {
		return nil, err
	}
	return &wire.Empty{}, t.signal(number(in.Signal))
}

func (d *driver) stats(ctx context.Context, in *wire.TaskStatsRequest, send func(*wire.TaskStatsResponse) error) error {
	t, err := d.find(in.TaskID)
	if err != nil {
		return err
	}
	for t.runs() {
		u := &wire.TaskUsage{Memory: &wire.MemoryUsage{RSS: t.memory()}}
		if err := send(&wire.TaskStatsResponse{Stats: &wire.TaskStats{ID: in.TaskID, At: wire.NewTime(time.Now()), All: u}}); err != nil {
			return err
		}
		select {
		case <-time.After(max(in.Interval.Span(), 100*time.Millisecond)):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}
