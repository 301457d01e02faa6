package op

import (
	"net/http"

	"berth"
)

// SetError sets the headers that carry an error to other programs: its kind,
// and its code if it has one. An error without a kind is a fault of the server.
func SetError(h http.Header, err error) {
	if kind := berth.PublicKind(err); kind != "" {
		h.Set(HeaderKind, string(kind))
	}
	if code := berth.CodeOf(err); code != "" {
		h.Set(HeaderCode, string(code))
	}
}

// ErrorOf returns the error that an answer's headers and text describe. guess
// is the kind if the headers name no known one, as when another program
// answers; with "" the error has no kind.
func ErrorOf(h http.Header, text error, guess berth.Kind) error {
	kind, code := berth.Kind(h.Get(HeaderKind)), berth.Code(h.Get(HeaderCode))
	if !kind.Known() {
		kind = guess
	}
	if kind == "" {
		return text
	}
	if !code.Known() {
		code = ""
	}
	return &berth.Error{Kind: kind, Code: code, Err: text}
}
