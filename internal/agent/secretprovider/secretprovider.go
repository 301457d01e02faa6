// Package secretprovider asks programs of the operator for secrets of tasks. A
// program is called as Nomad documents it for secret provider plugins: with "fetch"
// and a path, and it answers in JSON. It runs confined, with little time and
// memory, and nothing that it prints is shown to anybody but the task.
package secretprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth"
	"berth/internal/agent/isolate"
	"berth/internal/pattern"
	"berth/internal/saferoot"
)

// Word leads to Main.
const Word = "@secret"

// Providers are the programs of a directory: what is there is allowed. The zero
// Providers has none.
type Providers struct {
	Command []string // of helpers; see isolate.Helper
	Dir     string   // "": there are none
	Open    bool     // without Landlock
}

// nameForm is what a provider may be called. It is a file name.
var nameForm = pattern.New(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$`)

// IsName reports whether a text can be the name of a provider.
func IsName(s string) bool { return nameForm.MatchString(s) }

// Bounds of one call.
const (
	callTime  = 10 * time.Second
	maxOutput = 64 << 10
	maxItems  = 1000
	memory    = 512 << 20
	fileSize  = 16 << 20
)

// hostFiles are what a provider may read of the host: programs, libraries, and what
// it takes to find and trust others.
var hostFiles = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts",
	"/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime", "/dev/null", "/dev/urandom",
}

// order is what a helper is told.
type order struct {
	Name, Path string
	Env        []string
}

// ErrNone says that there is no such provider.
var ErrNone = errors.New("this node has no such provider")

// Fetch asks a provider for the secret at a path. env is added to its environment.
func (p *Providers) Fetch(ctx context.Context, name, path string, env map[string]string) (map[string]string, error) {
	f, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tmp, err := os.MkdirTemp("", "berth-secret-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if os.Geteuid() == 0 {
		if err := os.Chown(tmp, isolate.HelperUser, isolate.HelperUser); err != nil {
			return nil, err
		}
	}
	o := order{Name: name, Path: path}
	for k, v := range env {
		o.Env = append(o.Env, k+"="+v)
	}
	slices.Sort(o.Env)
	// Last, so that a job cannot set them: what the program is and finds.
	o.Env = append(o.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "TMPDIR="+tmp, "CPI_OPERATION=fetch")
	within, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	out := output{stop: cancel}
	h := isolate.Helper{
		Command: p.Command, Word: Word, Dir: tmp, Input: &o, Files: []*os.File{f}, Output: &out,
		Box: isolate.Box{Network: true, Run: true, Read: append(slices.Clip(hostFiles), p.Dir), Write: ".", Open: p.Open, Memory: memory, FileSize: fileSize, CPU: uint64(callTime / time.Second)},
	}
	err = h.Run(within)
	var ended *isolate.HelperError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.much:
		return nil, fmt.Errorf("it answered with more than %d bytes", maxOutput)
	case within.Err() != nil:
		return nil, fmt.Errorf("it did not answer within %v", callTime)
	case errors.As(err, &ended): // what it said last may be secret
		if _, refused := read(out.text.Bytes()); refused != nil && out.text.Len() > 0 {
			return nil, fmt.Errorf("%s; %w", ended.Status(), refused)
		}
		return nil, errors.New(ended.Status())
	case err != nil:
		return nil, err
	}
	return read(out.text.Bytes())
}

// open opens the program of a provider, below the directory. Nobody else may have
// written it.
func (p *Providers) open(name string) (*os.File, error) {
	if p.Dir == "" || !IsName(name) {
		return nil, ErrNone
	}
	dir, err := saferoot.Open(p.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNone
	} else if err != nil {
		return nil, fmt.Errorf("the directory of providers: %w", err)
	}
	defer dir.Close()
	f, err := dir.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrNone
	} else if err != nil {
		return nil, err
	}
	if err := trusted(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// trusted refuses a file that is no program of the operator.
func trusted(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	of, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return errors.New("it is not an executable file")
	case st.Mode()&0o022 != 0:
		return errors.New("others than its owner may write it")
	case ok && of.Uid != 0 && int(of.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to user %d, neither to root nor to the agent's", of.Uid)
	case os.Geteuid() == 0 && st.Mode()&0o005 != 0o005:
		return fmt.Errorf("it does not run as the agent's user, and must be readable and executable by others (mode 0755), got %04o", st.Mode().Perm())
	}
	return nil
}

// read reads the answer of a provider. No error repeats any of it but what the
// provider says is an error.
func read(text []byte) (map[string]string, error) {
	var said struct {
		Result map[string]string `json:"result"`
		Error  string            `json:"error"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, errors.New("its answer is not JSON with result, an object of texts")
	}
	if said.Error != "" {
		return nil, fmt.Errorf("it says: %s", berth.Clip(strings.Map(printable, said.Error), 256))
	}
	if said.Result == nil {
		return nil, errors.New("its answer has no result")
	}
	if len(said.Result) > maxItems {
		return nil, fmt.Errorf("its answer has %d items, at most %d are allowed", len(said.Result), maxItems)
	}
	return said.Result, nil
}

// printable keeps a message on one line.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// output keeps an output up to its bound.
type output struct {
	text bytes.Buffer // not embedded: its ReadFrom would know no bound
	much bool
	stop func() // ends the program
}

// Write implements io.Writer. More than the bound ends the program.
func (o *output) Write(b []byte) (int, error) {
	if o.much = o.much || o.text.Len()+len(b) > maxOutput; o.much {
		o.stop()
		return 0, errors.New("too much output")
	}
	return o.text.Write(b)
}
