// Package csi runs the node's part of the Container Storage Interface: it finds
// the plugins among the tasks of the node, has them mount volumes for allocations,
// and passes on what the servers' controller asks of them.
//
// What it mounts is recorded before a plugin is asked. Each call can be made
// again, as the interface promises, so a killed agent finishes or undoes what it
// began.
package csi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth"
)

// Bounds of a call.
const (
	callTime  = 2 * time.Minute // of one call; a provider may be slow to attach
	probeTime = 5 * time.Second
	maxAnswer = 4 << 20 // bytes
)

// client calls a plugin over its socket: gRPC, which is HTTP/2 with one framed
// message in either direction and the status in the trailers.
type client struct{ http http.Client }

// dial returns a client of the plugin that listens on a socket.
func dial(socket string) *client {
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx, socket) },
		Protocols:          new(http.Protocols),
		DisableCompression: true,
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &client{http.Client{Transport: t}}
}

// connect connects to a socket of a plugin. The plugin's task can put anything in
// the socket's place, and a link there could lead to a socket that only the agent
// may use. So what was looked at is what is connected to.
func connect(ctx context.Context, socket string) (net.Conn, error) {
	fd, err := unix.Open(socket, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(socket), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("%s is not a socket", filepath.Base(socket))
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(fd))
}

// close ends the client's connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// call calls a method, such as Node/NodeGetInfo. in and out are pointers to
// messages.
func (c *client) call(ctx context.Context, most time.Duration, method string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	frame := encode(make([]byte, 5), in)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-5))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/csi.v1."+method, bytes.NewReader(frame))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	res, err := c.http.Do(r)
	if err != nil {
		return berth.Errorf(berth.Unavailable, "CSI plugin, %s: %w", method, cause(ctx, err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return berth.Errorf(berth.Unavailable, "CSI plugin, %s: %w", method, cause(ctx, err))
	}
	if len(body) > maxAnswer {
		return damaged(fmt.Errorf("it is larger than %d bytes", maxAnswer))
	}
	status, message := res.Trailer.Get("Grpc-Status"), res.Trailer.Get("Grpc-Message")
	if status == "" { // it has failed before there was a message
		status, message = res.Header.Get("Grpc-Status"), res.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return refusal(method, status, message)
	}
	if len(body) < 5 || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-5) {
		return damaged(errors.New("its frame is not whole"))
	}
	return decode(body[5:], out)
}

// cause returns why a call failed: its own time is over, or what the network says.
func cause(ctx context.Context, err error) error {
	if e := ctx.Err(); e != nil {
		return e
	}
	return err
}

// The codes of gRPC that the interface gives a meaning.
const (
	codeInvalid       = 3
	codeNotFound      = 5
	codeExists        = 6
	codeExhausted     = 8
	codeFailed        = 9
	codeOutOfRange    = 11
	codeUnimplemented = 12
)

// refusal is the error for a status that is not OK.
func refusal(method, status, message string) error {
	code, err := strconv.Atoi(status)
	if err != nil {
		return damaged(errors.New("its answer has no status"))
	}
	if text, err := url.PathUnescape(message); err == nil {
		message = text
	}
	kind := berth.Unavailable // it may be another time
	switch code {
	case codeInvalid, codeOutOfRange, codeUnimplemented:
		kind = berth.Invalid
	case codeNotFound:
		kind = berth.NotFound
	case codeExists, codeFailed, codeExhausted:
		kind = berth.Conflict
	}
	message = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, message)
	return berth.Errorf(kind, "CSI plugin, %s: status %d: %s", method, code, berth.Clip(message, 512))
}
