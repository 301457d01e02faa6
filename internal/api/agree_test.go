package api_test

import (
	"net/http"
	"strings"
	"testing"

	"berth/internal/api"
	"berth/op"
)

// A body that names another namespace, region or object than the request line is
// refused with the field and both values, for every operation whose body can say
// such a thing; one that says the same is not refused for that.
func TestTheBodyAgreesWithTheRequestLine(t *testing.T) {
	s, _ := serve(t, nil)
	checked := 0
	for _, i := range op.All() {
		if i.Path == "" || i.Payload || i.Bytes || i.IsRead() && !i.Posted || i.Method == http.MethodDelete && !i.Body {
			continue
		}
		path := i.Path
		var fields []string
		for _, part := range strings.Split(i.Path, "/") {
			if strings.HasPrefix(part, "{") {
				fields = append(fields, strings.Trim(part, "{}"))
				path = strings.ReplaceAll(path, part, "line")
			}
		}
		for _, f := range append(fields, "Namespace", "Region") {
			if _, has := i.In.FieldByName(f); !has {
				continue
			}
			line := path + "?namespace=line&region=line"
			_, body := ask2(s, i.Verb(), line, `{"`+f+`": "body"}`)
			if !strings.Contains(body, f+`: "body" in the body differs from "line"`) && !strings.Contains(body, "body."+f+": unknown field") {
				t.Errorf("%s: %s %s with another %s in the body: %s", i.Name, i.Verb(), line, f, body)
			}
			if _, body := ask2(s, i.Verb(), line, `{"`+f+`": "line"}`); strings.Contains(body, "differs from") {
				t.Errorf("%s: %s %s with the same %s in the body: %s", i.Name, i.Verb(), line, f, body)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("%d fields were checked", checked)
	}
}

// ask2 asks and returns status and text of the answer.
func ask2(s *api.Server, method, path, body string) (int, string) {
	a := ask(s, method, path, body)
	return a.Code, a.Body.String()
}
