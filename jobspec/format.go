package jobspec

import (
	"bytes"

	"github.com/hashicorp/hcl/v2/hclwrite"

	"berth"
)

// Format returns an HCL file in its canonical form: indented by two spaces, with
// the equals signs of neighboring lines aligned. Comments and the order of lines
// stay as they are. A text that is not HCL is an error of kind Invalid that
// holds [berth.Problems]; one longer than [MaxText] is TooLarge.
func Format(file File) ([]byte, error) {
	if len(file.Text) > MaxText {
		return nil, berth.Errorf(berth.TooLarge, "%s: must be at most %d bytes, got %d", file.Name, MaxText, len(file.Text))
	}
	file.Text = bytes.TrimPrefix(file.Text, []byte("\ufeff"))
	var ps problems
	if _, ok := parseBody(file, &ps); !ok {
		return nil, ps.err()
	}
	return hclwrite.Format(file.Text), nil
}
