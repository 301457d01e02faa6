package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"berth"
	"berth/op"
)

// Limits of duplexes.
const (
	sendTime   = 30 * time.Second // for the agent to take a message
	maxMessage = 1 << 20          // bytes of a message of the agent
)

// Open opens an operation in which both ends send messages. It returns once the
// agent has accepted it, and the call ends with ctx. An error that ends the call
// later has the text that the agent gave it, and no kind.
func Open[In, Out any](ctx context.Context, c *Client, o op.Op[In, Out], in In) (op.Duplex, error) {
	r, err := c.request(ctx, o.Info, &in)
	if err != nil {
		return nil, err
	}
	address := "ws" + strings.TrimPrefix(r.URL.String(), "http")
	conn, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: c.http, HTTPHeader: r.Header, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, c.refused(resp)
		}
		return nil, c.unreachable(ctx, err)
	}
	conn.SetReadLimit(maxMessage)
	d := &duplex{conn: conn, name: o.Name, kind: websocket.MessageText}
	if o.Bytes {
		d.kind = websocket.MessageBinary
	}
	d.ctx, d.cancel = context.WithCancel(ctx)
	return d, nil
}

// duplex implements op.Duplex.
type duplex struct {
	conn   *websocket.Conn
	name   string // of the operation
	kind   websocket.MessageType
	ctx    context.Context
	cancel context.CancelFunc
	once   sync.Once
}

// Send implements op.Duplex.
func (d *duplex) Send(b []byte) error {
	ctx, cancel := context.WithTimeout(d.ctx, sendTime)
	defer cancel()
	return d.conn.Write(ctx, d.kind, b)
}

// Recv implements op.Duplex.
func (d *duplex) Recv() ([]byte, error) {
	for {
		_, b, err := d.conn.Read(d.ctx)
		var closed websocket.CloseError
		switch {
		case errors.As(err, &closed) && closed.Code == websocket.StatusNormalClosure:
			return nil, io.EOF
		case errors.As(err, &closed) && closed.Reason != "":
			return nil, errors.New(closed.Reason)
		case err != nil && d.ctx.Err() != nil:
			return nil, context.Cause(d.ctx)
		case err != nil:
			return nil, berth.Errorf(berth.Unavailable, "%s: the connection broke off: %w", d.name, err)
		case len(b) > 0:
			return b, nil
		}
	}
}

// Close implements op.Duplex.
func (d *duplex) Close() error {
	d.once.Do(func() {
		d.cancel()
		_ = d.conn.CloseNow()
	})
	return nil
}
