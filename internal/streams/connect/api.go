package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"berth"
	"berth/internal/rest"
	"berth/internal/saferoot"
	"berth/internal/sameorigin"
	"berth/op"
)

// maxSocketPath is the longest path to which clients can connect a unix socket,
// in bytes.
const maxSocketPath = 107

// maxBody is the limit of a report's size, in bytes.
const maxBody = 4 << 10

// reportPath is the URL path at which a processing element reports its
// connectivity.
const reportPath = "/v1/stream/pe/self/connectivity"

// chooseAddress chooses where tasks report: a socket beside the file or, if its
// path would be too long, a loopback TCP address. Other users of the machine
// can reach that, so its URL contains a token. Both stay the same for the life
// of the allocation.
func (k *Keeper) chooseAddress() error {
	path := filepath.Join(k.c.Dir.Path(), shared, socket)
	if len(path) <= maxSocketPath {
		k.api = "unix://" + path
		return nil
	}
	if k.record.Port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		k.record.Port = l.Addr().(*net.TCPAddr).Port
		if err := k.save(); err != nil {
			return errors.Join(err, l.Close())
		}
		k.listener = l
	}
	k.api = fmt.Sprintf("http://127.0.0.1:%d/%s", k.record.Port, k.record.Token)
	return nil
}

// listen opens the listener at that address.
func (k *Keeper) listen() (net.Listener, error) {
	if l := k.listener; l != nil {
		k.listener = nil
		return l, nil
	}
	if k.record.Port != 0 {
		return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(k.record.Port)))
	}
	// Through the open directory, whose path in /proc is always short.
	dir, err := k.c.Dir.Sub(shared)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := dir.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	path := dir.ProcPath() + "/" + socket
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The socket stays when the agent ends; the next agent replaces it.
	l.SetUnlinkOnClose(false)
	return l, errors.Join(os.Chmod(path, 0o666)) // tasks can run as any user
}

// serve accepts reports of tasks until ctx ends.
func (k *Keeper) serve(ctx context.Context) {
	for failures := 0; ; failures++ {
		l, err := k.listen()
		if err == nil {
			err = k.answer(ctx, l)
		}
		if ctx.Err() != nil {
			return
		}
		k.c.Log.Warn("cannot listen for connectivity reports of tasks; retrying", "api", k.api, "error", err)
		if rest.For(ctx, retry(failures)) != nil {
			return
		}
	}
}

// answer serves reports of the program on l until ctx ends. Its timeouts keep a
// program that stalls from holding connections.
func (k *Keeper) answer(ctx context.Context, l net.Listener) error {
	srv := &http.Server{Handler: k.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	return srv.Serve(l)
}

// handler returns the handler of the program's reports. On a TCP port, which
// others on the machine can reach, the path begins with the token.
func (k *Keeper) handler() http.Handler {
	at := reportPath
	if k.record.Port != 0 {
		at = "/" + k.record.Token + reportPath
	}
	mux := http.NewServeMux()
	mux.HandleFunc(at, func(w http.ResponseWriter, r *http.Request) {
		// Browsers reach a TCP port, and no socket.
		if refusal := new(sameorigin.Policy).Check(r); refusal != nil && k.record.Port != 0 {
			http.Error(w, refusal.Text, refusal.Status)
			return
		}
		if r.Method != http.MethodPut && r.Method != http.MethodPost {
			w.Header().Set("Allow", "PUT, POST")
			http.Error(w, fmt.Sprintf("method %s: want PUT or POST", r.Method), http.StatusMethodNotAllowed)
			return
		}
		// The body is bounded: the program is not trusted.
		if err := k.handleReport(r.Context(), http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
			op.SetError(w.Header(), err)
			http.Error(w, err.Error(), status(err))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("nothing at %.100q: want %s", r.URL.Path, reportPath), http.StatusNotFound)
	})
	return mux
}

// status returns the HTTP status of an error, as servers choose it. An error
// without a kind happened on the way to them.
func status(err error) int {
	switch berth.KindOf(err) {
	case berth.Invalid:
		return http.StatusBadRequest
	case berth.Denied:
		return http.StatusForbidden
	case berth.NotFound:
		return http.StatusNotFound
	case berth.Conflict:
		return http.StatusConflict
	case berth.TooLarge:
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusServiceUnavailable
}

// handleReport accepts a report of a task and returns when servers have
// accepted it.
func (k *Keeper) handleReport(ctx context.Context, body io.Reader) error {
	var in struct {
		State   string
		Version uint64
	}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return berth.Errorf(berth.TooLarge, "body: must be at most %d bytes", maxBody)
		}
		return berth.Errorf(berth.Invalid, "body: %w; want {\"State\": …, \"Version\": …}", err)
	}
	switch in.State {
	case berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull:
	default:
		return berth.Errorf(berth.Invalid, "unknown State %.64q: want %s, %s or %s", in.State, berth.ConnectivityNone, berth.ConnectivityPartial, berth.ConnectivityFull)
	}
	// A report is only worth passing on if it is about the newest file.
	k.mu.Lock()
	f := k.file
	k.mu.Unlock()
	switch {
	case f == nil:
		return berth.Refusef(berth.CodeStaleVersion, "there is no connectivity file")
	case in.Version > f.Version:
		return berth.Errorf(berth.Invalid, "Version: %d does not exist yet; the file has version %d", in.Version, f.Version)
	case in.Version > 0 && in.Version < f.Version:
		return berth.Refusef(berth.CodeStaleVersion, "the report is on version %d, and the file has version %d; read it again", in.Version, f.Version)
	}
	return k.c.Servers.ReportConnectivity(ctx, f.PE.UID, f.PE.LaunchCount, in.State)
}

// Clear removes the socket of an allocation that has ended.
func Clear(dir *saferoot.Root) { _ = dir.Remove(shared + "/" + socket) }
