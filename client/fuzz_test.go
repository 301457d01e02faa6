package client

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"berth/op"
)

type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Whatever answers, a call ends with a value or an error.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "application/json", "7", `[{"ID":"web"}]`)
	f.Add(200, "text/html; charset=utf-8", "-1", `<html>`)
	f.Add(404, "text/plain", "", "job not found: web")
	f.Add(500, "", "", "No cluster leader")
	f.Add(302, "", "", "")
	f.Add(200, "application/json", "x", `{"Data":"eA=="}{}{"Data":7}`)
	f.Fuzz(func(t *testing.T, status int, kind, index, body string) {
		c, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport = answers(func(r *http.Request) (*http.Response, error) {
			h := http.Header{"Content-Type": {kind}, op.HeaderIndex: {index}}
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
		_, meta, err := Call(t.Context(), c, op.ListJobs, op.JobsQuery{})
		if good := status >= 200 && status <= 299; err == nil && !good || err != nil && err.Error() == "" {
			t.Errorf("status %d: %v", status, err)
		}
		if err != nil && meta != (op.Meta{}) {
			t.Errorf("metadata beside the error %v", err)
		}
		last := error(nil)
		for frame, err := range Stream(t.Context(), c, op.ReadLogs, op.LogsQuery{AllocID: "a"}) {
			if last != nil || frame == nil && err == nil {
				t.Error("something came after the end")
			}
			last = err
		}
	})
}

// Every address is refused or good for a request.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"", "http://127.0.0.1:4646", "https://h/p/", "unix:///s", "http://[::1", "://", "http://a%2fb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		c, err := New(Config{Address: address})
		if err != nil {
			return
		}
		if _, err := c.request(t.Context(), op.ReadJob.Info, &op.JobRef{JobID: "a/b"}); err != nil {
			t.Errorf("%q makes no request: %v", address, err)
		}
	})
}
