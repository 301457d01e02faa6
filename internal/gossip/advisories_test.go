package gossip

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"berth/internal/eventually"
)

// C47: what a stranger claims to send costs no memory before it is there. It is also
// a row of docs/advisories.md.
func TestAdvisory_C47_ClaimedLengths(t *testing.T) {
	for name, c := range map[string]Config{"without keys": conf("a"), "with keys": func() Config { c := conf("a"); c.Keys = [][]byte{key(1)}; return c }()} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c)
			// Types of messages: a push and pull, compressed, encrypted, with a
			// label, a user's; then a length of up to 4 GiB, and no more bytes.
			for _, kind := range []byte{6, 9, 10, 244, 8, 0, 255} {
				for _, more := range [][]byte{binary.BigEndian.AppendUint32(nil, 1<<31), binary.BigEndian.AppendUint32(nil, 1<<32-1), {0xdd, 0xff, 0xff, 0xff, 0xff}, {0x83, 0xa5, 'N', 'o', 'd', 'e', 's', 0xce, 0x7f, 0xff, 0xff, 0xff, 0xac, 'U', 's', 'e', 'r', 'S', 't', 'a', 't', 'e', 'L', 'e', 'n', 0xce, 0x7f, 0xff, 0xff, 0xff, 0xa4, 'J', 'o', 'i', 'n', 0xc3}} {
					before := allocated()
					conn, err := net.Dial("tcp", s.addr())
					if err != nil {
						t.Fatal(err)
					}
					conn.Write(append([]byte{kind}, more...))
					conn.(*net.TCPConn).CloseWrite()
					conn.SetReadDeadline(time.Now().Add(eventually.Limit))
					io.Copy(io.Discard, conn)
					conn.Close()
					if grew := allocated() - before; grew > 4<<20 {
						t.Errorf("%d % x: it cost %d bytes", kind, more, grew)
					}
				}
			}
			if len(s.Members()) != 1 {
				t.Errorf("it sees %s", s.view())
			}
		})
	}
}

// allocated returns how many bytes this process has ever allocated.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
