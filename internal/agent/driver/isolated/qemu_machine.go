package isolated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth"
	"berth/internal/agent/driver"
)

// machine is a task of the driver qemu. It implements [driver.Handle].
type machine struct {
	driver.Handle
	t        *driver.Task
	graceful bool
}

// Signal implements [driver.Handle].
func (*machine) Signal(context.Context, syscall.Signal) error {
	return berth.Errorf(berth.Invalid, "the driver qemu passes no signals to a machine")
}

// monitorTime is how long QEMU may take to hear that the power button is pressed.
const monitorTime = 5 * time.Second

// Stop implements [driver.Handle]. A graceful one presses the power button, and
// QEMU is killed if the machine is still there after the timeout.
func (m *machine) Stop(ctx context.Context, sig syscall.Signal, timeout time.Duration) error {
	if m.graceful && sig != syscall.SIGKILL && timeout > 0 {
		asked, cancel := context.WithTimeout(ctx, monitorTime)
		defer cancel()
		if err := m.powerdown(asked); err == nil {
			sig = 0 // it only begins the timeout
		}
	}
	return m.Handle.Stop(ctx, sig, timeout)
}

// powerdown presses the machine's power button.
func (m *machine) powerdown(ctx context.Context) error {
	conn, err := m.monitor(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end); err != nil {
			return err
		}
	}
	// QEMU's machine protocol: a greeting, then an answer to each command, with
	// events in between.
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	if err := in.Decode(&struct{}{}); err != nil {
		return err
	}
	for _, command := range []string{"qmp_capabilities", "system_powerdown"} {
		if err := out.Encode(map[string]string{"execute": command}); err != nil {
			return err
		}
		for {
			var answer struct {
				Return *json.RawMessage `json:"return"`
				Error  *struct{ Class, Desc string }
			}
			if err := in.Decode(&answer); err != nil {
				return err
			}
			if answer.Error != nil {
				return fmt.Errorf("%s: %s: %s", command, answer.Error.Class, answer.Error.Desc)
			}
			if answer.Return != nil {
				break
			}
		}
	}
	return nil
}

// monitor connects to QEMU. Its socket is where the task may write, so no link is
// followed, and a path of any length works.
func (m *machine) monitor(ctx context.Context) (net.Conn, error) {
	dir, err := m.t.AllocDir.Sub(filepath.Base(m.t.Dir) + "/" + filepath.Dir(monitorSocket))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	fd, err := unix.Open(dir.ProcPath()+"/"+filepath.Base(monitorSocket), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.Join(err, errors.New("the monitor's place has no socket"))
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
}
