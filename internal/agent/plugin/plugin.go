// Package plugin runs the programs of plugin_dir: external task drivers and device
// plugins, in the protocol that Nomad publishes for them, over go-plugin.
//
// A plugin is a program of its own. It is started with the agent and ends with
// it, however that ends. One that ends by itself is started again; who uses it
// waits meanwhile, and tells the new process of the tasks that the old one had.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"berth"
	wire "berth/internal/agent/plugin/pluginwire"
	"berth/internal/rest"
)

const (
	startTime = time.Minute      // for a plugin to say that it is there
	callTime  = 30 * time.Second // for calls that only tell something
	leastRest = 250 * time.Millisecond
	mostRest  = 30 * time.Second // between two starts of a plugin that ends again and again
)

// Config says which plugins there are.
type Config struct {
	Dir    string           // of the programs; "": there are no plugins
	Blocks map[string]Block // plugin blocks by the name of the program
	Node   string           // ID of the node: names the directory of the sockets
	Log    *slog.Logger
}

// Block is the plugin block of a program.
type Block struct {
	Args   []string
	Config map[string]any // as JSON has it
}

// Plugins are all plugins of an agent.
type Plugins struct {
	all  []*Plugin
	stop context.CancelFunc
	wait sync.WaitGroup
	dir  string // of the sockets
}

// Plugin is one plugin: whichever process is it now.
type Plugin struct {
	Name    string // that it says
	Type    wire.PluginType
	Version string

	program, path string
	block         Block
	log           *slog.Logger
	sockets       string

	mu      sync.Mutex
	conn    *Conn         // nil while none runs
	why     error         // that none runs
	changed chan struct{} // closed and replaced with conn
	number  uint64        // of the newest process

	dropped atomic.Bool
}

// Conn is the connection to one process of a plugin.
type Conn struct {
	*grpc.ClientConn
	Number uint64 // of the process: another means that a new process has to be told of tasks
	Done   <-chan struct{}
	kill   func()
}

// Ended waits until a process that does not answer has ended, for a second at most.
// It returns the error of ctx.
func (c *Conn) Ended(ctx context.Context) error {
	select {
	case <-c.Done:
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Open starts all plugins and returns when each has said what it is. One that
// does not is an error.
func Open(ctx context.Context, c Config) (*Plugins, error) {
	found, err := programs(c.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Blocks)) {
		if found[name] == "" {
			return nil, berth.Errorf(berth.Invalid, "plugin %q: there is no such driver, and no program %q in plugin_dir %q", name, name, c.Dir)
		}
	}
	ps := &Plugins{}
	lives, stop := context.WithCancel(context.Background())
	ps.stop = stop
	if len(found) == 0 {
		return ps, nil
	}
	if ps.dir, err = socketDir(os.TempDir(), c.Node); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, program := range slices.Sorted(maps.Keys(found)) {
		p := &Plugin{
			program: program, path: found[program], block: c.Blocks[program], log: c.Log.With("plugin", program), sockets: ps.dir, changed: make(chan struct{}),
		}
		ps.all = append(ps.all, p)
		g.Go(func() error {
			if err := p.launch(ctx); err != nil {
				return fmt.Errorf("plugin %s: %w", program, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, ps.Close())
	}
	for _, p := range ps.all {
		ps.wait.Go(func() { p.keep(lives) })
	}
	return ps, nil
}

// longestSocket is how many bytes the path of a socket may have (unix(7)), and
// socketBelow how many of them go-plugin and the plugin add to that of the directory.
const (
	longestSocket = 107
	socketBelow   = len("/plugin-dir4294967295/plugin4294967295")
)

// socketDir makes the directory for the sockets of plugins below temp. Others may
// write to temp, so it must be a new one: theirs is not used.
func socketDir(temp, node string) (string, error) {
	dir := filepath.Join(temp, "berth-plugins-"+node[:min(8, len(node))])
	if most := longestSocket - socketBelow; len(dir) > most {
		return "", berth.Errorf(berth.Invalid, "plugin_dir: sockets of plugins are below TMPDIR, and %s has %d bytes: must have %d at most", dir, len(dir), most)
	}
	_ = os.RemoveAll(dir) // sockets of plugins whose agent was killed
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("plugin_dir: the directory for sockets of plugins: %w", err)
	}
	return dir, nil
}

// Drivers returns the plugins that are task drivers, and Devices those that offer
// devices.
func (ps *Plugins) Drivers() []*Plugin { return ps.of(wire.TypeDriver) }

// Devices returns the plugins that offer devices.
func (ps *Plugins) Devices() []*Plugin { return ps.of(wire.TypeDevice) }

func (ps *Plugins) of(t wire.PluginType) (out []*Plugin) {
	for _, p := range ps.all {
		if p.Type == t {
			out = append(out, p)
		}
	}
	return out
}

// Close ends all plugins. What their tasks do is theirs.
func (ps *Plugins) Close() error {
	ps.stop()
	ps.wait.Wait()
	for _, p := range ps.all {
		p.set(nil, errors.New("the agent ends"))
	}
	if ps.dir == "" {
		return nil
	}
	return os.RemoveAll(ps.dir)
}

// set replaces the connection, and ends the process of the old one.
func (p *Plugin) set(c *Conn, why error) {
	p.mu.Lock()
	old := p.conn
	p.conn, p.why = c, why
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if old != nil {
		old.kill()
	}
}

// Conn returns the connection to the running process. While none runs, it
// waits for one.
func (p *Plugin) Conn(ctx context.Context) (*Conn, error) {
	for {
		p.mu.Lock()
		c, why, changed := p.conn, p.why, p.changed
		p.mu.Unlock()
		if c != nil {
			return c, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("plugin %s does not run: %w", p.program, errors.Join(why, ctx.Err()))
		}
	}
}

// Running returns the connection to the running process, or why it does not run.
func (p *Plugin) Running() (*Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn, p.why
}

// keep starts the plugin again whenever it has ended.
func (p *Plugin) keep(ctx context.Context) {
	wait := leastRest
	for !p.dropped.Load() {
		c, _ := p.Running()
		if c != nil {
			since := time.Now()
			select {
			case <-c.Done:
				if p.dropped.Load() {
					return
				}
				p.log.Warn("a plugin has ended; starting it again")
				p.set(nil, errors.New("its process has ended"))
			case <-ctx.Done():
				return
			}
			if time.Since(since) > mostRest {
				wait = leastRest
			}
		}
		if rest.For(ctx, wait) != nil {
			return
		}
		wait = min(2*wait, mostRest)
		if err := p.launch(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("a plugin cannot be started", "error", err)
			p.set(nil, err)
		}
	}
}

// launch starts a process of the plugin, asks it what it is and gives it its
// config.
func (p *Plugin) launch(ctx context.Context) error {
	var run *process
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.Cookie, MagicCookieValue: wire.CookieValue},
		Plugins:         goplugin.PluginSet{}, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS: true, StartTimeout: startTime, SkipHostEnv: true,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.sockets},
		Logger:           logger(p.log),
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			var err error
			run, err = newProcess(p.path, p.block.Args, append(environment(), cmd.Env...))
			return run, err
		},
	})
	protocol, err := client.Client()
	if err != nil {
		client.Kill()
		return err
	}
	c := &Conn{ClientConn: protocol.(*goplugin.GRPCClient).Conn, Done: run.done, kill: client.Kill}
	if err := p.greet(ctx, c); err != nil {
		client.Kill()
		return err
	}
	p.number++
	c.Number = p.number
	p.set(c, nil)
	return nil
}

// environment is what a plugin has of the agent's environment. Tokens and keys of
// the agent are not among it.
func environment() (out []string) {
	for _, k := range []string{"PATH", "HOME", "USER", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		if v, ok := os.LookupEnv(k); ok {
			out = append(out, k+"="+v)
		}
	}
	return out
}

// greet asks a process what it is, and gives it its config.
func (p *Plugin) greet(ctx context.Context, c *Conn) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	info, err := Call[wire.PluginInfo](ctx, c, wire.BaseService, "PluginInfo", &wire.Empty{})
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(info.APIVersions, wire.APIVersion):
		return berth.Errorf(berth.Invalid, "it speaks versions %q of the protocol; this agent speaks %s", info.APIVersions, wire.APIVersion)
	case info.Type != wire.TypeDriver && info.Type != wire.TypeDevice:
		return berth.Errorf(berth.Invalid, "it is of the type %d: must be a task driver (%d) or a device plugin (%d)", info.Type, wire.TypeDriver, wire.TypeDevice)
	case !validName(info.Name):
		return berth.Errorf(berth.Invalid, "it calls itself %.64q: must be 1 to %d letters, digits, dashes, dots and underscores", info.Name, berth.MaxNameLen)
	case p.Name != "" && (info.Name != p.Name || info.Type != p.Type):
		return berth.Errorf(berth.Invalid, "it calls itself %q now, and was %q when the agent started; restart the agent", info.Name, p.Name)
	}
	schema, err := Call[wire.Schema](ctx, c, wire.BaseService, "ConfigSchema", &wire.Empty{})
	if err != nil {
		return err
	}
	set := &wire.SetConfig{APIVersion: wire.APIVersion, Agent: &wire.AgentConfig{Driver: &wire.AgentDriverConfig{MinPort: 10000, MaxPort: 14512}}}
	if set.Config, err = Encode("plugin["+p.program+"].config", schema.Spec, p.block.Config); err != nil {
		return err
	}
	if _, err := Call[wire.Empty](ctx, c, wire.BaseService, "SetConfig", set); err != nil {
		return fmt.Errorf("it refuses its config: %w", err)
	}
	if p.Name == "" { // from the first on it stays
		p.Name, p.Type, p.Version = info.Name, info.Type, info.Version
	}
	return nil
}

// validName reports whether a plugin's name can be one of a driver.
func validName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return s != "" && len(s) <= berth.MaxNameLen
}

// Call makes a call that has one answer. Its error is Unavailable if the process
// has ended or ctx has, else what the plugin says.
func Call[Out, In any](ctx context.Context, c *Conn, service, method string, in *In) (*Out, error) {
	out := new(Out)
	if err := c.Invoke(ctx, "/"+service+"/"+method, in, out, grpc.ForceCodecV2(wire.Codec{})); err != nil {
		return nil, failure(ctx, err)
	}
	return out, nil
}

// Stream is a call with several messages.
type Stream[In, Out any] struct{ s grpc.ClientStream }

// OpenStream begins a call with several messages.
func OpenStream[In, Out any](ctx context.Context, c *Conn, service, method string) (*Stream[In, Out], error) {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{StreamName: method, ServerStreams: true, ClientStreams: true}, "/"+service+"/"+method, grpc.ForceCodecV2(wire.Codec{}))
	if err != nil {
		return nil, failure(ctx, err)
	}
	return &Stream[In, Out]{s}, nil
}

// Listen begins a call with one question and several answers.
func Listen[Out, In any](ctx context.Context, c *Conn, service, method string, in *In) (*Stream[In, Out], error) {
	s, err := OpenStream[In, Out](ctx, c, service, method)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.Send(in), s.CloseSend())
}

// Send sends a message.
func (s *Stream[In, Out]) Send(in *In) error { return failure(s.s.Context(), s.s.SendMsg(in)) }

// CloseSend says that no more is sent.
func (s *Stream[In, Out]) CloseSend() error { return failure(s.s.Context(), s.s.CloseSend()) }

// Next returns the next message; io.EOF is the end.
func (s *Stream[In, Out]) Next() (*Out, error) {
	out := new(Out)
	if err := s.s.RecvMsg(out); err != nil {
		return nil, failure(s.s.Context(), err)
	}
	return out, nil
}

// Refusal is an error that a plugin answers with. The call had its time: the
// plugin is there.
type Refusal struct {
	Code codes.Code
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return "the plugin says: " + r.Text }

// failure turns an error of gRPC into one with a kind.
func failure(ctx context.Context, err error) error {
	st, ok := status.FromError(err)
	if err == nil || err == io.EOF || !ok {
		return err
	}
	switch {
	case st.Code() == codes.Unavailable, st.Code() == codes.Canceled && ctx.Err() == nil: // the connection was closed
		return berth.Errorf(berth.Unavailable, "the plugin does not answer: %s", st.Message())
	case st.Code() == codes.Canceled:
		return fmt.Errorf("%w: %s", context.Canceled, st.Message())
	case st.Code() == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %s", context.DeadlineExceeded, st.Message())
	}
	said := &Refusal{st.Code(), berth.Clip(st.Message(), 1000)}
	if said.Code == codes.InvalidArgument {
		return berth.Errorf(berth.Invalid, "%w", said)
	}
	return said
}
