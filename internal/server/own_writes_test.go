package server_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A user who writes through a follower, or is refused there, reads nothing older
// on the same connection, though the follower hears of the write a moment after
// the leader has answered.
func TestStaleReadsAfterAWriteOnOneConnection(t *testing.T) {
	c := startSeveral(t, 3)
	r := c.list[c.follower()]
	user := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer user.CloseIdleConnections()
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequest(method, r.http+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := user.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for i := range 200 {
		name := fmt.Sprint("web-", i)
		job := fmt.Sprintf(`{"Job":{"ID":%q,"TaskGroups":[{"Name":"g","Count":0,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"x"}}]}]}}`, name)
		if code, text := ask("PUT", "/v1/jobs", job); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if code, text := ask("GET", "/v1/job/"+name+"?stale", ""); code != http.StatusOK {
			t.Fatalf("job %d was registered, and is read: %d %s", i, code, text)
		}
		if code, text := ask("DELETE", "/v1/job/"+name+"?purge=true", ""); code != http.StatusOK {
			t.Fatalf("%d %s", code, text)
		}
		if code, _ := ask("GET", "/v1/job/"+name+"?stale", ""); code != http.StatusNotFound {
			t.Fatalf("job %d was purged, and is read: %d", i, code)
		}
	}
}
