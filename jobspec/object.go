package jobspec

import (
	"bytes"

	"berth"
	"berth/internal/admit"
	"berth/internal/decode"
)

// parseObject parses the specification of an object other than a job. It is
// JSON, as in the API, if it begins with a brace; else readHCL reads it. tidy,
// unless it is nil, changes the tree before it becomes the object.
func parseObject[T any](file File, what string, readHCL func(*problems) (decode.Tree, error), tidy func(decode.Tree)) (out *T, err error) {
	doc := &document{}
	err = doc.look(file.Name, func() (err error) {
		if err := checkSize(file); err != nil {
			return err
		}
		var tree decode.Tree
		if isJSON(file.Text) {
			if tree, err = decode.ParseJSON(bytes.TrimPrefix(file.Text, []byte("\ufeff"))); err != nil {
				return berth.Errorf(berth.Invalid, "%s: %w", file.Name, err)
			}
		} else if tree, err = readHCL(&doc.problems); err != nil {
			return err
		}
		if tidy != nil {
			tidy(tree)
		}
		out = new(T)
		doc.problems.adopt(admit.Fill(out, tree, what).Err(), file.Name, nil)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
