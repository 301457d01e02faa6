package ship

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
)

// fileSink appends lines to a file, one JSON object a line. When the file is
// full it is renamed: the name with .1 at its end, and so on up to the files that
// are kept.
type fileSink struct {
	path  string
	extra map[string]string
	size  int64 // of a file, at most, but for one batch
	keep  int   // files besides the one that is written

	f *os.File
}

// Send implements [Sink].
func (s *fileSink) Send(_ context.Context, lines []Line) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range lines {
		if err := enc.Encode(object(&lines[i], s.extra)); err != nil {
			return err
		}
	}
	if s.f == nil {
		f, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return err
		}
		s.f = f
	}
	before, err := s.f.Seek(0, 2)
	if err != nil {
		return err
	}
	if _, err := s.f.Write(b.Bytes()); err != nil {
		_ = s.f.Truncate(before) // a full disk: all of it again, later
		return err
	}
	if before+int64(b.Len()) >= s.size {
		return s.rotate()
	}
	return nil
}

// rotate begins a new file.
func (s *fileSink) rotate() error {
	if err := s.Close(); err != nil {
		return err
	}
	for i := s.keep; i > 0; i-- {
		from := s.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", s.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", s.path, i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if s.keep == 0 {
		return os.Remove(s.path)
	}
	return nil
}

// Close implements [Sink].
func (s *fileSink) Close() error {
	if s.f == nil {
		return nil
	}
	err := s.f.Close()
	s.f = nil
	return err
}

// syslogSink sends lines in the form of RFC 5424: over TCP and unix stream
// sockets framed by their length (RFC 6587), over UDP and unix datagram sockets
// one a packet.
type syslogSink struct {
	network, address string
	extra            map[string]string
	host             string

	conn net.Conn
}

// Priorities of RFC 5424: facility user (1) with severities info and error.
const (
	priorityOut = 1*8 + 6
	priorityErr = 1*8 + 3
)

// maxSyslogPacket bounds what is sent in one packet.
const maxSyslogPacket = 8 << 10

// Send implements [Sink].
func (s *syslogSink) Send(ctx context.Context, lines []Line) error {
	if s.conn == nil {
		var d net.Dialer
		conn, err := d.DialContext(ctx, s.network, s.address)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	if until, ok := ctx.Deadline(); ok {
		_ = s.conn.SetWriteDeadline(until)
	}
	packets := s.network == "udp" || s.network == "unixgram"
	var b bytes.Buffer
	for i := range lines {
		m := s.message(&lines[i])
		if packets {
			if len(m) > maxSyslogPacket {
				m = m[:maxSyslogPacket]
			}
			if _, err := s.conn.Write([]byte(m)); err != nil {
				return s.fail(err)
			}
			continue
		}
		fmt.Fprintf(&b, "%d %s", len(m), m)
	}
	if b.Len() > 0 {
		if _, err := s.conn.Write(b.Bytes()); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// fail closes a connection that is of no use any more.
func (s *syslogSink) fail(err error) error {
	_ = s.Close()
	return err
}

// message returns a line in the form of RFC 5424.
func (s *syslogSink) message(l *Line) string {
	priority := priorityOut
	if l.Stream == "stderr" {
		priority = priorityErr
	}
	var data strings.Builder
	data.WriteString("[berth@32473")
	param := func(k, v string) {
		fmt.Fprintf(&data, ` %s="%s"`, word(k, 32), strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`).Replace(v))
	}
	for _, p := range l.pairs() {
		param(p[0], p[1])
	}
	for k, v := range s.extra {
		param(k, v)
	}
	data.WriteByte(']')
	id := l.AllocID
	if len(id) > 8 {
		id = id[:8]
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' {
			return -1
		}
		return r
	}, l.Text)
	return fmt.Sprintf("<%d>1 %s %s %s %s - %s %s", priority, l.Time.UTC().Format("2006-01-02T15:04:05.000000Z"), word(s.host, 255), word(l.Job+"/"+l.Task, 48), word(id, 128), data.String(), text)
}

// word returns a text as a word of RFC 5424: printable ASCII, without what ends
// words and names.
func word(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '=' || r == ']' || r == '"' {
			return '_'
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s[:min(len(s), most)]
}

// Close implements [Sink].
func (s *syslogSink) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
