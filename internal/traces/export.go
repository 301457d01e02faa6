package traces

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"berth"
)

// Config says where spans go.
type Config struct {
	Address  string            // a URL; without a path it is the usual one, /v1/traces
	Headers  map[string]string // of the requests
	CAFile   string            // PEM; "" is the machine's authorities
	Sample   float64           // the share of traces that is sent
	Resource map[string]string // who sends: attributes such as service.instance.id
	Log      *slog.Logger
}

// Exporter sends spans to a collector.
type Exporter struct {
	config Config
	url    string
	client *http.Client
	queue  chan Span
	lost   atomic.Int64 // spans that were dropped
}

const (
	mostWaiting = 8192             // spans
	mostAtOnce  = 512              // spans in a request
	gathering   = time.Second      // how long spans are gathered for a request
	patience    = 10 * time.Second // with the collector
)

// New returns an exporter. Run must be called.
func New(c Config) (*Exporter, error) {
	u, err := url.Parse(c.Address)
	if err != nil {
		return nil, berth.Errorf(berth.Invalid, "telemetry.traces.address: %w", err)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, berth.Errorf(berth.Invalid, "telemetry.traces.ca_file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, berth.Errorf(berth.Invalid, "telemetry.traces.ca_file: %s holds no certificate in PEM", c.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Exporter{config: c, url: u.String(), client: &http.Client{Transport: transport, Timeout: patience}, queue: make(chan Span, mostWaiting)}, nil
}

// Add takes spans of one trace for sending. It never waits: spans that there is
// no room for are dropped, and counted.
func (x *Exporter) Add(spans []Span) {
	if len(spans) == 0 || !sampled(spans[0].Trace, x.config.Sample) {
		return
	}
	for _, s := range spans {
		select {
		case x.queue <- s:
		default:
			x.lost.Add(1)
		}
	}
}

// Run sends spans until ctx ends, and then those that wait, once.
func (x *Exporter) Run(ctx context.Context) {
	defer x.client.CloseIdleConnections()
	failed := false
	for {
		batch := x.gather(ctx)
		ends := ctx.Err() != nil
		if len(batch) > 0 {
			// What is there at the end is sent too, within the client's patience.
			err := x.send(context.WithoutCancel(ctx), batch)
			if err != nil {
				x.lost.Add(int64(len(batch)))
			}
			if err != nil && !failed {
				x.config.Log.Warn("traces cannot be sent; further attempts are made and not logged", "error", err)
			} else if err == nil && failed {
				x.config.Log.Info("traces are sent again", "lost_spans", x.lost.Load())
			}
			failed = err != nil
		}
		if ends && (failed || len(x.queue) == 0) {
			return
		}
	}
}

// gather waits for spans, and a little longer for more of them.
func (x *Exporter) gather(ctx context.Context) (batch []Span) {
	select {
	case s := <-x.queue:
		batch = append(batch, s)
	case <-ctx.Done():
	}
	enough := time.NewTimer(gathering)
	defer enough.Stop()
	for len(batch) < mostAtOnce {
		if ctx.Err() != nil {
			select {
			case s := <-x.queue:
				batch = append(batch, s)
				continue
			default:
				return batch
			}
		}
		select {
		case s := <-x.queue:
			batch = append(batch, s)
		case <-enough.C:
			return batch
		case <-ctx.Done():
		}
	}
	return batch
}

// send makes one request.
func (x *Exporter) send(ctx context.Context, batch []Span) error {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if err := json.NewEncoder(zip).Encode(body(batch, x.config.Resource)); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, &b)
	if err != nil {
		return err
	}
	for k, v := range x.config.Headers {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	answer, err := x.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // so that the connection can be used again
	if answer.StatusCode >= 300 {
		return fmt.Errorf("the answer is %s: %.200s", answer.Status, text)
	}
	return nil
}

// The body of OTLP over HTTP in JSON: POST /v1/traces.
type (
	jsonValue struct {
		StringValue string `json:"stringValue"`
	}
	jsonAttribute struct {
		Key   string    `json:"key"`
		Value jsonValue `json:"value"`
	}
	jsonStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code,omitempty"` // 2: an error
	}
	jsonSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		ParentID   string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"` // 1: internal
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []jsonAttribute `json:"attributes,omitempty"`
		Status     jsonStatus      `json:"status"`
	}
	jsonScope struct {
		Scope map[string]string `json:"scope"`
		Spans []jsonSpan        `json:"spans"`
	}
	jsonResource struct {
		Resource   map[string][]jsonAttribute `json:"resource"`
		ScopeSpans []jsonScope                `json:"scopeSpans"`
	}
	jsonBody struct {
		ResourceSpans []jsonResource `json:"resourceSpans"`
	}
)

// body returns the body of a request.
func body(batch []Span, resource map[string]string) jsonBody {
	scope := jsonScope{Scope: map[string]string{"name": "berth"}}
	for _, s := range batch {
		j := jsonSpan{
			TraceID: hex.EncodeToString(s.Trace[:]), SpanID: hex.EncodeToString(s.ID[:]), Name: s.Name, Kind: 1,
			Start: strconv.FormatInt(s.Start, 10), End: strconv.FormatInt(s.End, 10), Attributes: attributes(s.Attributes),
		}
		if s.Parent != (SpanID{}) {
			j.ParentID = hex.EncodeToString(s.Parent[:])
		}
		if s.Failed != "" {
			j.Status = jsonStatus{s.Failed, 2}
		}
		scope.Spans = append(scope.Spans, j)
	}
	return jsonBody{[]jsonResource{{map[string][]jsonAttribute{"attributes": attributes(resource)}, []jsonScope{scope}}}}
}

// attributes returns attributes in order.
func attributes(of map[string]string) (out []jsonAttribute) {
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, jsonAttribute{k, jsonValue{of[k]}})
	}
	return out
}
