package api

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
)

// frame is a masked websocket frame with a mask of zeros.
func frame(first byte, length uint64, data string) []byte {
	b := []byte{first}
	switch {
	case length < 126:
		b = append(b, 0x80|byte(length))
	case length < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(length))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), length)
	}
	return append(append(b, 0, 0, 0, 0), data...)
}

// FuzzSocket: whatever frames a caller sends, the call ends when the caller does, and
// no message is longer than allowed.
func FuzzSocket(f *testing.F) {
	f.Add(frame(0x81, 5, "hello"))
	f.Add(append(frame(0x01, 2, "he"), frame(0x80, 3, "llo")...))
	f.Add(append(frame(0x82, 0, ""), frame(0x88, 2, "\x03\xe8")...))
	f.Add(frame(0x89, 4, "ping"))
	f.Add(frame(0x82, 1<<40, "x"))
	f.Add(frame(0xf3, 1, "x"))
	f.Add([]byte{0x81, 0x05, 'h', 'e', 'l', 'l', 'o'}) // not masked
	f.Add(frame(0x88, 1, "x"))
	ended := make(chan int, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := &socket{ctx: r.Context(), w: w, r: r, kind: websocket.MessageText}
		longest := 0
		for {
			b, err := s.Recv()
			if err != nil {
				break
			}
			longest = max(longest, len(b))
		}
		s.end(nil)
		ended <- longest
	}))
	f.Cleanup(web.Close)
	f.Fuzz(func(t *testing.T, sent []byte) {
		c, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
		c.Write(sent)
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
		if longest := <-ended; longest > maxMessage {
			t.Errorf("a message of %d bytes", longest)
		}
	})
}
