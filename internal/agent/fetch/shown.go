package fetch

import "regexp"

// address finds addresses in a text, with the user, the password and the parameters
// that they have.
var address = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'` + "`" + `<>/?#]*@)?([^\s"'` + "`" + `<>?#]*)([?#][^\s"'` + "`" + `<>]*)?`)

// Shown takes what can be secret out of a text that names sources, such as an error:
// the user and the password of an address, and its parameters, which hold keys and
// signatures of object stores.
func Shown(text string) string {
	return address.ReplaceAllStringFunc(text, func(s string) string {
		m := address.FindStringSubmatch(s)
		out := m[1]
		if m[2] != "" {
			out += "…@"
		}
		if out += m[3]; m[4] != "" {
			out += "?…"
		}
		return out
	})
}
