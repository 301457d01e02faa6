package ship

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// poster sends lines by HTTP. A sink differs from others in what the body is.
type poster struct {
	url     string
	headers map[string]string
	extra   map[string]string // labels of the configuration
	client  *http.Client
	body    func(lines []Line, extra map[string]string) any
}

// Send implements [Sink].
func (p *poster) Send(ctx context.Context, lines []Line) error {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	if err := json.NewEncoder(zip).Encode(p.body(lines, p.extra)); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Content-Encoding", "gzip")
	for k, v := range p.headers {
		req.Header.Set(k, v)
	}
	answer, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20)) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return fmt.Errorf("the answer is %s: %.200s", answer.Status, text)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound:
		// The configuration may be mended: the lines wait.
		return fmt.Errorf("the answer is %s: %.200s", answer.Status, text)
	}
	return fmt.Errorf("%w: %s: %.200s", ErrRefused, answer.Status, text)
}

// Close implements [Sink].
func (p *poster) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// object returns a line as one JSON object.
func object(l *Line, extra map[string]string) map[string]string {
	out := map[string]string{"time": l.Time.UTC().Format(time.RFC3339Nano), "message": l.Text}
	for k, v := range extra {
		out[k] = v
	}
	for _, p := range l.pairs() {
		out[p[0]] = p[1]
	}
	return out
}

// objects is the body of a plain HTTP sink: an array of objects.
func objects(lines []Line, extra map[string]string) any {
	out := make([]map[string]string, len(lines))
	for i := range lines {
		out[i] = object(&lines[i], extra)
	}
	return out
}

// streamsOf puts lines with the same labels together, in the order in which they
// came.
func streamsOf(lines []Line) (order []*Labels, of map[*Labels][]*Line) {
	of = map[*Labels][]*Line{}
	for i := range lines {
		l := &lines[i]
		if of[l.Labels] == nil {
			order = append(order, l.Labels)
		}
		of[l.Labels] = append(of[l.Labels], l)
	}
	return order, of
}

// loki is the body of Loki's push API: POST /loki/api/v1/push. IDs of
// allocations would make too many streams there, so they are metadata of lines.
func loki(lines []Line, extra map[string]string) any {
	type stream struct {
		Stream map[string]string `json:"stream"`
		Values [][]any           `json:"values"`
	}
	out := struct {
		Streams []stream `json:"streams"`
	}{}
	order, of := streamsOf(lines)
	for _, labels := range order {
		s := stream{Stream: map[string]string{}}
		more := map[string]string{}
		for k, v := range extra {
			s.Stream[k] = v
		}
		for _, p := range labels.pairs() {
			if p[0] == "alloc_id" || p[0] == "node_id" {
				more[p[0]] = p[1]
			} else {
				s.Stream[p[0]] = p[1]
			}
		}
		for _, l := range of[labels] {
			s.Values = append(s.Values, []any{strconv.FormatInt(l.Time.UnixNano(), 10), l.Text, more})
		}
		out.Streams = append(out.Streams, s)
	}
	return out
}

// The body of OTLP over HTTP in JSON: POST /v1/logs. Names of attributes are those
// of OpenTelemetry's conventions where there are any.
type (
	otlpValue struct {
		StringValue string `json:"stringValue"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpRecord struct {
		ObservedTimeUnixNano string          `json:"observedTimeUnixNano"`
		Body                 otlpValue       `json:"body"`
		Attributes           []otlpAttribute `json:"attributes"`
	}
	otlpScope struct {
		Scope      map[string]string `json:"scope"`
		LogRecords []otlpRecord      `json:"logRecords"`
	}
	otlpResource struct {
		Resource  map[string][]otlpAttribute `json:"resource"`
		ScopeLogs []otlpScope                `json:"scopeLogs"`
	}
)

// otlp is the body of OTLP.
func otlp(lines []Line, extra map[string]string) any {
	var out struct {
		ResourceLogs []otlpResource `json:"resourceLogs"`
	}
	order, of := streamsOf(lines)
	for _, labels := range order {
		attributes := []otlpAttribute{{"service.name", otlpValue{labels.Job + "." + labels.Group + "." + labels.Task}}, {"service.namespace", otlpValue{labels.Namespace}}, {"service.instance.id", otlpValue{labels.AllocID}}, {"host.id", otlpValue{labels.NodeID}}, {"host.name", otlpValue{labels.NodeName}}}
		for _, p := range [][2]string{{"berth.job", labels.Job}, {"berth.group", labels.Group}, {"berth.task", labels.Task}} {
			attributes = append(attributes, otlpAttribute{p[0], otlpValue{p[1]}})
		}
		for k, v := range extra {
			attributes = append(attributes, otlpAttribute{k, otlpValue{v}})
		}
		scope := otlpScope{Scope: map[string]string{"name": "berth"}}
		for _, l := range of[labels] {
			scope.LogRecords = append(scope.LogRecords, otlpRecord{
				strconv.FormatInt(l.Time.UnixNano(), 10), otlpValue{l.Text}, []otlpAttribute{{"log.iostream", otlpValue{labels.Stream}}},
			})
		}
		out.ResourceLogs = append(out.ResourceLogs, otlpResource{map[string][]otlpAttribute{"attributes": attributes}, []otlpScope{scope}})
	}
	return out
}
