package csi

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth"
)

// The task of a plugin can put anything where its socket should be. Only a socket
// there is called: a link would lead to what only the agent may call.
func TestOnlyASocketOfThePluginIsCalled(t *testing.T) {
	dir, err := os.MkdirTemp("", "csi") // short, as paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	other := filepath.Join(dir, "other.sock")
	ln, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for name, c := range map[string]struct {
		put  func(path string) error
		want string // of the error; "": it is called
	}{
		"the socket":        {func(p string) error { return os.Link(other, p) }, ""},
		"nothing":           {func(string) error { return nil }, "no such file"},
		"a link":            {func(p string) error { return os.Symlink(other, p) }, "is not a socket"},
		"a relative link":   {func(p string) error { return os.Symlink("other.sock", p) }, "is not a socket"},
		"a link to nothing": {func(p string) error { return os.Symlink("/nonexistent", p) }, "is not a socket"},
		"a link to itself":  {func(p string) error { return os.Symlink("csi.sock", p) }, "is not a socket"},
		"a file":            {func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) }, "is not a socket"},
		"a directory":       {func(p string) error { return os.Mkdir(p, 0o700) }, "is not a socket"},
		"a pipe":            {func(p string) error { return syscall.Mkfifo(p, 0o600) }, "is not a socket"},
	} {
		path := filepath.Join(dir, "csi.sock")
		if err := c.put(path); err != nil {
			t.Fatal(err)
		}
		conn, err := connect(t.Context(), path)
		switch {
		case err == nil:
			_ = conn.Close()
			if c.want != "" {
				t.Errorf("%s was called", name)
			}
		case c.want == "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		_ = os.RemoveAll(path)
	}
}

// What a plugin says is mounted is given to a task only if the node sees a
// directory mounted there.
func TestOnlyAMountIsGivenToATask(t *testing.T) {
	dir := t.TempDir()
	for name, put := range map[string]func(path string) error{
		"nothing":       func(string) error { return nil },
		"a directory":   func(p string) error { return os.Mkdir(p, 0o700) },
		"a link":        func(p string) error { return os.Symlink("/", p) },
		"a link to it":  func(p string) error { return os.Symlink("/proc", p) },
		"a file":        func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"a broken link": func(p string) error { return os.Symlink("gone", p) },
	} {
		path := filepath.Join(dir, "target")
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		if err := isMount(path); err == nil {
			t.Errorf("%s is taken for a mounted volume", name)
		}
		_ = os.RemoveAll(path)
	}
	if err := isMount("/proc"); err != nil {
		t.Errorf("a mount: %v", err)
	}
}

// What a plugin says is a block device is given to a task only if one is there, and
// no link to one.
func TestOnlyABlockDeviceIsGivenToATask(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making devices needs root")
	}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		put  func(path string) error
		good bool
	}{
		"a block device":       {func(p string) error { return syscall.Mknod(p, syscall.S_IFBLK|0o600, 7<<8) }, true},
		"nothing":              {func(string) error { return nil }, false},
		"a character device":   {func(p string) error { return syscall.Mknod(p, syscall.S_IFCHR|0o600, 1<<8|3) }, false},
		"a directory":          {func(p string) error { return os.Mkdir(p, 0o700) }, false},
		"a file":               {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
		"a link to a device":   {func(p string) error { return os.Symlink(filepath.Join(dir, "device"), p) }, false},
		"a broken link":        {func(p string) error { return os.Symlink("gone", p) }, false},
		"a pipe":               {func(p string) error { return syscall.Mkfifo(p, 0o600) }, false},
		"a link to a disk":     {func(p string) error { return os.Symlink("/dev/loop0", p) }, false},
		"a hard link to it":    {func(p string) error { return os.Link(filepath.Join(dir, "device"), p) }, true},
		"a link to a hard one": {func(p string) error { return os.Symlink("device", p) }, false},
	} {
		if err := syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFBLK|0o600, 7<<8); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "target")
		if err := c.put(path); err != nil {
			t.Fatal(err)
		}
		if err := isDevice(path); (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.RemoveAll(path)
	}
}

// answers serves a plugin whose every answer is that of do.
func answers(t *testing.T, do http.HandlerFunc) *client {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "csi.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: do, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(ln) //nolint:errcheck // it ends by Close
	c := dial(socket)
	t.Cleanup(func() {
		c.close()
		_ = s.Close()
		_ = os.RemoveAll(dir)
	})
	return c
}

// framed is a message with its frame.
func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// Answers that are no messages of the protocol, or too large, are errors, and never
// more.
func TestHostileAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		body   []byte
		status string
		want   string
	}{
		"an answer":           {framed(encode(nil, &pluginInfo{Name: "x"})), "0", ""},
		"an empty answer":     {framed(nil), "0", ""},
		"no frame":            {nil, "0", "not whole"},
		"half a frame":        {[]byte{0, 0}, "0", "not whole"},
		"a frame of nothing":  {[]byte{0, 0xff, 0xff, 0xff, 0xff}, "0", "not whole"},
		"two frames":          {append(framed([]byte{10, 1, 'x'}), framed(nil)...), "0", "not whole"},
		"a compressed one":    {[]byte{1, 0, 0, 0, 0}, "0", "not whole"},
		"a length without it": {framed([]byte{10, 0x7f}), "0", "damaged"},
		"a field of 0":        {framed([]byte{2, 0}), "0", "damaged"},
		"a number for a text": {framed([]byte{8, 1}), "0", "wire type"},
		"an endless varint":   {framed(bytes.Repeat([]byte{0xff}, 20)), "0", "damaged"},
		"too large":           {framed(make([]byte, maxAnswer)), "0", "larger than"},
		"no status":           {framed(nil), "", "no status"},
		"a status of text":    {framed(nil), "OK", "no status"},
		"a status below 0":    {framed(nil), "-1", "status -1"},
		"not supported":       {nil, "12", "status 12"},
	} {
		t.Run(name, func(t *testing.T) {
			p := answers(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "Grpc-Status")
				_, _ = w.Write(c.body)
				if c.status != "" {
					w.Header().Set("Grpc-Status", c.status)
				}
			})
			var out pluginInfo
			err := p.call(t.Context(), probeTime, "Identity/GetPluginInfo", &empty{}, &out)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// A message of a refusal is one line that is not too long.
func TestTheMessageOfARefusalIsOneLine(t *testing.T) {
	err := refusal("Identity/Probe", "13", "a%0Ab%1B[31m"+strings.Repeat("x", 5000))
	if text := err.Error(); strings.ContainsAny(text, "\n\x1b") || len(text) > 1000 || berth.KindOf(err) != berth.Unavailable {
		t.Errorf("%q", text)
	}
}

// No bytes make the reader of messages fail in another way than by an error.
func TestAnyBytesAreReadOrRefused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.IntN(256))
			if r.IntN(2) == 0 {
				b[i] &= 0x1f // small numbers of fields and lengths, which go deeper
			}
		}
		for _, out := range []any{&created{}, &listedVolumes{}, &listedSnapshots{}, &capabilities{}, &nodeInfo{}, &controllerPublished{}, &probed{}} {
			_ = decode(b, out)
		}
	}
}

// A plugin that describes itself at length is not healthy: servers keep what it
// says.
func TestAPluginDoesNotFillTheServers(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, answer := range map[string]map[string]any{
		"provider": {"GetPluginInfo": &pluginInfo{Name: long}},
		"version":  {"GetPluginInfo": &pluginInfo{Name: "x", Version: long}},
		"lines":    {"GetPluginInfo": &pluginInfo{Name: "x\ny"}},
		"node":     {"NodeGetInfo": &nodeInfo{ID: long}},
		"topology": {"NodeGetInfo": &nodeInfo{ID: "n", Topology: &topology{Segments: map[string]string{"zone": strings.Repeat("x", 5000)}}}},
		"":         {},
	} {
		c := answers(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "Grpc-Status")
			body := encode(nil, &empty{})
			if x := answer[filepath.Base(r.URL.Path)]; x != nil {
				body = encode(nil, x)
			}
			_, _ = w.Write(framed(body))
			w.Header().Set("Grpc-Status", "0")
		})
		p := &Plugin{ID: "disk", Type: TypeMonolith, client: c}
		if _, err := p.describe(context.Background()); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
