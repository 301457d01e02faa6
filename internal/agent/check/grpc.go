package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// The health service of gRPC: one call of grpc.health.v1.Health/Check. Its
// request and answer have one field each, so they are written and read here,
// over the HTTP/2 of the standard library. See
// https://github.com/grpc/grpc/blob/master/doc/health-checking.md and
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.

const (
	grpcMethod  = "/grpc.health.v1.Health/Check"
	grpcPrefix  = 5 // bytes before a message: a flag of compression, and its length
	grpcServing = 1
)

// grpcStatuses are what a service says of itself, by number.
var grpcStatuses = []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"}

// askGRPC asks the health service of gRPC whether the service is well.
func (s *Spec) askGRPC(ctx context.Context) Outcome {
	var protocols http.Protocols
	scheme := "http"
	if s.GRPCUseTLS {
		scheme = "https"
		protocols.SetHTTP2(true)
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	transport := &http.Transport{
		Protocols: &protocols, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: s.TLSSkipVerify, ServerName: s.TLSServerName}, // as the job says
	}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+s.Address+grpcMethod, bytes.NewReader(grpcRequest(s.GRPCService)))
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set("User-Agent", "berth health check")
	if end, ok := ctx.Deadline(); ok {
		req.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", max(1, time.Until(end).Milliseconds())))
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return failed(err)
	}
	if resp.StatusCode != http.StatusOK {
		return failed(fmt.Errorf("gRPC needs the HTTP status 200, got %s", resp.Status))
	}
	// A call that fails at once has no body, and its status among the headers.
	trailer := resp.Trailer
	if resp.Header.Get("Grpc-Status") != "" {
		trailer = resp.Header
	}
	if code := trailer.Get("Grpc-Status"); code != "0" {
		why, err := url.PathUnescape(trailer.Get("Grpc-Message"))
		if err != nil {
			why = trailer.Get("Grpc-Message")
		}
		return failed(fmt.Errorf("the gRPC health service answers with status %q: %s", code, why))
	}
	status, err := grpcAnswer(body)
	switch {
	case err != nil:
		return failed(err)
	case status == grpcServing:
		return Outcome{OK: true, Output: "nomad: grpc ok"}
	case status < uint64(len(grpcStatuses)):
		return Outcome{Output: "the gRPC service is " + grpcStatuses[status]}
	}
	return Outcome{Output: fmt.Sprintf("the gRPC service is in the unknown status %d", status)}
}

// grpcRequest returns a HealthCheckRequest as a message of gRPC: field 1 is the
// name of the service.
func grpcRequest(service string) []byte {
	var m []byte
	if service != "" {
		m = append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(service))), service...)
	}
	out := make([]byte, grpcPrefix, grpcPrefix+len(m))
	binary.BigEndian.PutUint32(out[1:], uint32(len(m)))
	return append(out, m...)
}

// grpcAnswer reads a HealthCheckResponse: field 1 is the status, 0 if absent.
func grpcAnswer(b []byte) (status uint64, err error) {
	bad := fmt.Errorf("the answer is no HealthCheckResponse")
	if len(b) < grpcPrefix || b[0] != 0 || uint64(binary.BigEndian.Uint32(b[1:])) != uint64(len(b)-grpcPrefix) {
		return 0, bad
	}
	for b = b[grpcPrefix:]; len(b) > 0; {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, bad
		}
		b = b[n:]
		value, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, bad
		}
		b = b[n:]
		switch {
		case key == 1<<3: // a number
			status = value
		case key&7 == 2 && value <= uint64(len(b)): // bytes of a field that we do not know
			b = b[value:]
		case key&7 != 0:
			return 0, bad
		}
	}
	return status, nil
}
