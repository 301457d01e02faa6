package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"berth"
	"berth/internal/acl"
	"berth/internal/api"
	"berth/op"
)

// keeper has snapshots, as a server does, of any bytes.
type keeper struct {
	api.Operator
	holds string
	got   int64
	err   error // of a restore
}

func (k *keeper) SaveSnapshot() (*api.Snapshot, error) {
	sum := sha256.Sum256([]byte(k.holds))
	return &api.Snapshot{
		ReadCloser: io.NopCloser(strings.NewReader(k.holds)), Size: int64(len(k.holds)), Index: 7,
		Digest: "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]),
	}, nil
}

func (k *keeper) RestoreSnapshot(_ context.Context, from io.Reader) (saved, now uint64, err error) {
	if k.got, err = io.Copy(io.Discard, from); err != nil {
		return 0, 0, berth.Errorf(berth.Invalid, "cannot load the snapshot: %w", err)
	}
	return 7, 9, k.err
}

func keeps(t *testing.T, k *keeper) *api.Server {
	s, _ := serve(t, func(c *api.Config) { c.Operator = k })
	return s
}

// endless is a body of so many bytes that nobody holds.
type endless struct{ rest int64 }

func (e *endless) Read(b []byte) (int, error) {
	if e.rest == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), e.rest)
	e.rest -= n
	return int(n), nil
}

// A snapshot is a stream: no limit of bodies is its limit, and what cannot be
// used ends it.
func TestASnapshotIsOfAnySize(t *testing.T) {
	k := &keeper{}
	s := keeps(t, k)
	for _, sized := range []bool{true, false} {
		const size = 3*op.MaxJobBody + 1
		r := httptest.NewRequest("PUT", "/v1/operator/snapshot", &endless{size})
		if r.ContentLength = -1; sized {
			r.ContentLength = size
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK || k.got != size || w.Header().Get(op.HeaderIndex) != "9" || !strings.Contains(w.Body.String(), `"SnapshotIndex":7`) {
			t.Errorf("%d of %d bytes: %d %v %s", k.got, size, w.Code, w.Header(), w.Body)
		}
	}
	for what, c := range map[string]struct {
		body io.Reader
		err  error
		code int
		want string
	}{
		"the body breaks off": {iotest.ErrReader(io.ErrUnexpectedEOF), nil, 400, "cannot load the snapshot: unexpected EOF"},
		"it is refused":       {strings.NewReader("x"), berth.Errorf(berth.Invalid, "this is not a snapshot"), 400, "this is not a snapshot"},
		"the disk fails":      {strings.NewReader("x"), errors.New("no space left on device"), 500, "no space left on device"},
	} {
		k.err = c.err
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("PUT", "/v1/operator/snapshot", c.body))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
}

// What is sent says how long it is, its checksum, and the index of its state.
func TestASnapshotIsSent(t *testing.T) {
	k := &keeper{holds: strings.Repeat("state", 50_000)}
	s := keeps(t, k)
	sum := sha256.Sum256([]byte(k.holds))
	want := map[string]string{
		op.HeaderDigest: "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]), op.HeaderIndex: "7", op.HeaderKnownLeader: "true", op.HeaderLastContact: "0",
		"Content-Length": strconv.Itoa(len(k.holds)), "Content-Type": "application/octet-stream",
	}
	for method, body := range map[string]string{"GET": k.holds, "HEAD": ""} {
		w := ask(s, method, "/v1/operator/snapshot", "")
		if w.Code != http.StatusOK || w.Body.String() != body {
			t.Errorf("%s: %d, %d bytes", method, w.Code, w.Body.Len())
		}
		for name, v := range want {
			if w.Header().Get(name) != v {
				t.Errorf("%s: %s is %q, not %q", method, name, w.Header().Get(name), v)
			}
		}
	}
	alone, _ := serve(t, nil)
	for method, body := range map[string]string{"GET": "", "PUT": "x"} {
		if w := ask(alone, method, "/v1/operator/snapshot", body); w.Code != 503 || !strings.Contains(w.Body.String(), "no part in the cluster's log") {
			t.Errorf("%s where there is no log: %d %s", method, w.Code, w.Body)
		}
	}
}

// Nothing of a snapshot is read or written by who may not.
func TestSnapshotsNeedTheirRight(t *testing.T) {
	k := &keeper{holds: "secret"}
	s, _ := serve(t, func(c *api.Config) {
		c.Operator = k
		c.Authorize = func(_ api.Caller, need acl.Capability, _ string) error {
			if need != acl.Management {
				t.Errorf("it needs %s", need)
			}
			return berth.Errorf(berth.Denied, "Permission denied")
		}
	})
	for method, body := range map[string]string{"GET": "", "PUT": "x"} {
		if w := ask(s, method, "/v1/operator/snapshot", body); w.Code != 403 || strings.Contains(w.Body.String(), "secret") || k.got != 0 {
			t.Errorf("%s: %d %s, %d bytes read", method, w.Code, w.Body, k.got)
		}
	}
}

// A snapshot that does not come any more is given up.
func TestASnapshotThatStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		p, stop := listen(t, keeps(t, k), api.Limits{})
		defer stop()
		conn := p.dial()
		defer conn.Close()
		go fmt.Fprintf(conn, "PUT /v1/operator/snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", 1<<30, strings.Repeat("x", 1<<20))
		code, _, body, err := answer(conn)
		if err != nil || code != 400 || k.got != 1<<20 {
			t.Errorf("%d %s, %v, %d bytes", code, body, err, k.got)
		}
	})
}
