package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	cnitypes "github.com/containernetworking/cni/pkg/types"

	"berth"
)

// pluginTime is how long the plugins may take to make or remove one network, and
// the commands of the firewall to change it. One that hangs does not keep other
// networks waiting, nor the end of an allocation.
const pluginTime = 2 * time.Minute

// limited returns a context that ends after pluginTime.
func (n *Networks) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, n.pluginTime, fmt.Errorf("it has not ended after %s", n.pluginTime))
}

// plugins starts CNI plugins.
type plugins struct{ invoke.DefaultExec }

// ExecPlugin runs a plugin and returns its answer. When ctx ends, the plugin is
// killed with the processes that it has started.
func (*plugins) ExecPlugin(ctx context.Context, path string, input []byte, env []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, path)
	var out, said bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(input), &out, &said
	err := run(ctx, cmd)
	if err == nil {
		return out.Bytes(), nil
	}
	// A plugin says on stdout what is wrong.
	if e := new(cnitypes.Error); ctx.Err() == nil && json.Unmarshal(out.Bytes(), e) == nil && (e.Code != 0 || e.Msg != "") {
		return nil, e
	}
	return nil, fmt.Errorf("plugin %s: %w: %s", filepath.Base(path), err, berth.Clip(string(bytes.TrimSpace(said.Bytes())), 500))
}

// run runs a command. When ctx ends, which is the command's context, the command is
// killed with the processes that it has started. Those that it leaves behind when
// it ends by itself are not waited for.
func run(ctx context.Context, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrWaitDelay):
		return nil
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}
