package network

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/internal/eventually"
)

// hangs is a CNI plugin that does not end when it is to remove what it made, nor
// does the process that it starts.
const hangs = `#!/bin/sh
case $CNI_COMMAND in
ADD) echo '{"cniVersion": "0.4.0", "ips": [{"version": "4", "address": "10.213.0.2/24"}]}' ;;
DEL)
	sleep 100000 &
	echo $$ $! >DIR/pids
	wait ;;
esac
`

// custom configures a network of a plugin that is a script, and puts the script in
// place.
func custom(t *testing.T, n *Networks, script string) {
	t.Helper()
	dir := filepath.Dir(n.c.StateDir)
	n.c.Plugins = append(n.c.Plugins, dir)
	again, err := New(n.c)
	must(t, err)
	n.cni = again.cni
	must(t, os.MkdirAll(n.c.ConfigDir, 0o755))
	must(t, os.WriteFile(filepath.Join(n.c.ConfigDir, "10-odd.conflist"), []byte(`{"cniVersion": "0.4.0", "name": "odd", "plugins": [{"type": "strange"}]}`), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "strange"), []byte(strings.ReplaceAll(script, "DIR", dir)), 0o755))
}

// A plugin that hangs as it removes a network is ended with all that it has
// started, and the error names it. The next try removes the network.
func TestAPluginThatHangsAsItRemoves(t *testing.T) {
	n := need(t)
	custom(t, n, hangs)
	_, err := n.Make(t.Context(), &Request{Alloc: first, Mode: "cni/odd"})
	must(t, err)
	var pids []byte
	var said string
	for n.pluginTime = 100 * time.Millisecond; !bytes.HasSuffix(pids, []byte("\n")); n.pluginTime *= 2 { // until it had the time to begin
		failed := n.Remove(t.Context(), first, nil)
		if failed == nil {
			t.Fatal("the network was removed")
		}
		said = failed.Error()
		if pids, err = os.ReadFile(filepath.Join(filepath.Dir(n.c.StateDir), "pids")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if !strings.Contains(said, "network odd: ") || !strings.Contains(said, "plugin strange: it has not ended after ") {
		t.Errorf("the error is %s", said)
	}
	for _, f := range strings.Fields(string(pids)) {
		pid, err := strconv.Atoi(f)
		must(t, err)
		eventually.True(t, "process "+f+" has ended", func() bool {
			stat, _ := os.ReadFile("/proc/" + f + "/stat")
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || strings.Contains(string(stat), ") Z ")
		})
	}
	if left, err := n.Left(); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	custom(t, n, "#!/bin/sh\n")
	n.pluginTime = pluginTime
	must(t, n.Remove(t.Context(), first, nil))
}

// What a plugin says is wrong is in the error, and a process that it leaves behind
// is not waited for.
func TestWhatAPluginSays(t *testing.T) {
	n := need(t)
	r := &Request{Alloc: first, Mode: "cni/odd"}
	for script, want := range map[string]string{
		`echo '{"cniVersion": "0.4.0", "code": 100, "msg": "no room"}'; exit 1`: "no room",
		`echo 'what is this' >&2; exit 3`:                                       "plugin strange: exit status 3: what is this",
	} {
		custom(t, n, "#!/bin/sh\ntest $CNI_COMMAND = ADD || exit 0\n"+script+"\n")
		if _, err := n.Make(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
	custom(t, n, strings.Replace(hangs, "ADD) ", "ADD) sleep 100000 & echo $! >DIR/pids; ", 1))
	m, err := n.Make(t.Context(), r)
	must(t, err)
	if m.Status.Address != "10.213.0.2" {
		t.Errorf("%+v", m.Status)
	}
	pids, err := os.ReadFile(filepath.Join(filepath.Dir(n.c.StateDir), "pids"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(pids)))
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL)) // it was left alone
	custom(t, n, "#!/bin/sh\n")
}
