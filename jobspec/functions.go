package jobspec

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-cty-funcs/cidr"
	"github.com/hashicorp/go-cty-funcs/crypto"
	"github.com/hashicorp/go-cty-funcs/encoding"
	"github.com/hashicorp/go-cty-funcs/filesystem"
	"github.com/hashicorp/go-cty-funcs/uuid"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// fn is a function that job files can call.
type fn struct {
	call function.Function
	make func(*scope) function.Function // instead of call, for those that need the scope
	// carries: it passes text on unchanged, so that ${attr.x} in it survives.
	carries bool
	file    bool // it accesses files
	lazy    bool // it takes expressions, not values, which are charged themselves
	types   bool // it converts its arguments or their elements to one type
	// guard refuses arguments whose result would be too large. It runs before the
	// function, with known arguments of the right types.
	guard func(*meter, []cty.Value) error
}

// functions has the functions of Nomad's job specification and a few more that
// users of HCL expect. init fills it in, since the functions for files refer to
// it indirectly.
var functions map[string]fn

// init joins the tables of all groups of functions. A name must be in one of
// them only; the last one would win.
func init() {
	functions = map[string]fn{}
	for _, part := range []map[string]fn{
		numberFunctions, textFunctions, collectionFunctions, encodingFunctions, hashFunctions,
		timeFunctions, networkFunctions, typeFunctions, fileFunctions(),
	} {
		maps.Copy(functions, part)
	}
}

// The functions by group. A name means the same as in Nomad's job files.
var numberFunctions = map[string]fn{
	"abs":      {call: stdlib.AbsoluteFunc},
	"ceil":     {call: stdlib.CeilFunc},
	"floor":    {call: stdlib.FloorFunc},
	"log":      {call: stdlib.LogFunc},
	"max":      {call: stdlib.MaxFunc},
	"min":      {call: stdlib.MinFunc},
	"parseint": {call: stdlib.ParseIntFunc, guard: shortTexts(4096)},
	"pow":      {call: stdlib.PowFunc},
	"signum":   {call: stdlib.SignumFunc},
	"sum":      {call: sumFunc},
}

var textFunctions = map[string]fn{
	"chomp":         {call: stdlib.ChompFunc, carries: true},
	"endswith":      {call: textTest(strings.HasSuffix)},
	"format":        {call: stdlib.FormatFunc, carries: true, guard: guardFormat},
	"formatlist":    {call: stdlib.FormatListFunc, carries: true, guard: guardFormat},
	"indent":        {call: stdlib.IndentFunc, carries: true, guard: guardIndent},
	"join":          {call: stdlib.JoinFunc, carries: true, guard: guardJoin},
	"lower":         {call: stdlib.LowerFunc},
	"regex":         {call: stdlib.RegexFunc, guard: guardRegex(0)},
	"regex_replace": {call: stdlib.RegexReplaceFunc, guard: guardRegexReplace},
	"regexall":      {call: stdlib.RegexAllFunc, guard: guardRegex(0)},
	"replace":       {call: stdlib.ReplaceFunc, guard: guardReplace},
	"split":         {call: stdlib.SplitFunc, guard: guardSplit},
	"startswith":    {call: textTest(strings.HasPrefix)},
	"strcontains":   {call: textTest(strings.Contains)},
	"strlen":        {call: stdlib.StrlenFunc},
	"strrev":        {call: stdlib.ReverseFunc},
	"substr":        {call: stdlib.SubstrFunc},
	"title":         {call: stdlib.TitleFunc},
	"trim":          {call: stdlib.TrimFunc},
	"trimprefix":    {call: stdlib.TrimPrefixFunc},
	"trimspace":     {call: stdlib.TrimSpaceFunc, carries: true},
	"trimsuffix":    {call: stdlib.TrimSuffixFunc},
	"upper":         {call: stdlib.UpperFunc},
}

var collectionFunctions = map[string]fn{
	"alltrue":         {call: allOf(true)},
	"anytrue":         {call: allOf(false)},
	"chunklist":       {call: stdlib.ChunklistFunc, carries: true},
	"coalesce":        {call: stdlib.CoalesceFunc, carries: true, types: true},
	"coalescelist":    {call: stdlib.CoalesceListFunc, carries: true},
	"compact":         {call: stdlib.CompactFunc, carries: true},
	"concat":          {call: stdlib.ConcatFunc, carries: true},
	"contains":        {call: stdlib.ContainsFunc},
	"distinct":        {call: stdlib.DistinctFunc, carries: true, guard: guardSquare},
	"element":         {call: stdlib.ElementFunc, carries: true},
	"flatten":         {call: stdlib.FlattenFunc, carries: true},
	"index":           {call: stdlib.IndexFunc, carries: true},
	"keys":            {call: stdlib.KeysFunc, carries: true},
	"length":          {call: lengthFunc, carries: true},
	"lookup":          {call: stdlib.LookupFunc, carries: true},
	"merge":           {call: stdlib.MergeFunc, carries: true},
	"range":           {call: stdlib.RangeFunc},
	"reverse":         {call: stdlib.ReverseListFunc, carries: true},
	"setintersection": {call: stdlib.SetIntersectionFunc},
	"setproduct":      {call: stdlib.SetProductFunc, carries: true, guard: guardProduct},
	"setsubtract":     {call: stdlib.SetSubtractFunc},
	"setunion":        {call: stdlib.SetUnionFunc, carries: true},
	"slice":           {call: stdlib.SliceFunc, carries: true},
	"sort":            {call: stdlib.SortFunc},
	"values":          {call: stdlib.ValuesFunc, carries: true},
	"zipmap":          {call: stdlib.ZipmapFunc, carries: true},
}

var encodingFunctions = map[string]fn{
	"base64decode": {call: encoding.Base64DecodeFunc},
	"base64encode": {call: encoding.Base64EncodeFunc},
	"csvdecode":    {call: stdlib.CSVDecodeFunc, guard: guardParse(nil)},
	"jsondecode":   {call: stdlib.JSONDecodeFunc, guard: guardParse(guardJSON)},
	"jsonencode":   {call: stdlib.JSONEncodeFunc, carries: true},
	"urlencode":    {call: encoding.URLEncodeFunc},
	"yamldecode":   {call: ctyyaml.YAMLDecodeFunc, guard: guardParse(guardYAML)},
	"yamlencode":   {call: ctyyaml.YAMLEncodeFunc, carries: true},
}

var hashFunctions = map[string]fn{
	"bcrypt":     {call: crypto.BcryptFunc, guard: guardBcrypt},
	"md5":        {call: crypto.Md5Func},
	"rsadecrypt": {call: crypto.RsaDecryptFunc, guard: guardRSA},
	"sha1":       {call: crypto.Sha1Func},
	"sha256":     {call: crypto.Sha256Func},
	"sha512":     {call: crypto.Sha512Func},
	"uuidv4":     {call: uuid.V4Func},
	"uuidv5":     {call: uuid.V5Func},
}

var timeFunctions = map[string]fn{
	"formatdate": {call: stdlib.FormatDateFunc},
	"timeadd":    {call: stdlib.TimeAddFunc},
	"timestamp":  {call: timestampFunc},
}

var networkFunctions = map[string]fn{
	"cidrhost":    {call: cidr.HostFunc},
	"cidrnetmask": {call: cidr.NetmaskFunc},
	"cidrsubnet":  {call: cidr.SubnetFunc},
	"cidrsubnets": {call: cidr.SubnetsFunc},
}

var typeFunctions = map[string]fn{
	"can":      {call: tryfunc.CanFunc, carries: true, lazy: true},
	"convert":  {call: typeexpr.ConvertFunc, carries: true, lazy: true, types: true},
	"tobool":   {call: stdlib.MakeToFunc(cty.Bool)},
	"tolist":   {call: stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)), carries: true, types: true},
	"tomap":    {call: stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), carries: true, types: true},
	"tonumber": {call: stdlib.MakeToFunc(cty.Number)},
	"toset":    {call: stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), carries: true, types: true},
	"tostring": {call: stdlib.MakeToFunc(cty.String), carries: true},
	"try":      {call: tryfunc.TryFunc, carries: true, lazy: true},
}

// fileFunctions returns the functions for files. basename and dirname only use
// the text of a path.
func fileFunctions() map[string]fn {
	return map[string]fn{
		"abspath":     {make: absPath, file: true},
		"basename":    {call: filesystem.BasenameFunc},
		"dirname":     {call: filesystem.DirnameFunc},
		"file":        {make: fileFunc(func(b []byte) string { return string(b) }, true), file: true},
		"filebase64":  {make: fileFunc(base64.StdEncoding.EncodeToString, false), file: true},
		"fileescaped": {make: fileFunc(escapeTemplate, true), file: true},
		"fileexists":  {make: fileExists, file: true},
		"fileset":     {make: fileSet, file: true},
		"pathexpand":  {make: pathExpand, file: true},
	}
}

// functionNames returns the names of all functions in order, for proposals.
func functionNames() []string { return keys(functions) }

// converts reports whether the i-th argument is converted to another type
// before or in the call.
func (f fn) converts(i int) bool {
	if f.types || f.make != nil {
		return true
	}
	if params := f.call.Params(); i < len(params) {
		return params[i].Type != cty.DynamicPseudoType
	}
	rest := f.call.VarParam()
	return rest != nil && rest.Type != cty.DynamicPseudoType
}

// build returns the function for one parse: its arguments are charged and
// guarded before each call.
func (f fn) build(s *scope, name string) function.Function {
	inner := f.call
	if f.make != nil {
		inner = f.make(s)
	}
	// A lazy function evaluates its arguments itself, and they are charged
	// then.
	if f.lazy {
		return inner
	}
	// The arguments are charged and guarded when the type is computed,
	// which comes before every call.
	pay := func(args []cty.Value) error {
		known := true
		for _, a := range args {
			s.m.look(a)
			known = known && a.IsWhollyKnown()
		}
		if f.guard == nil || !known {
			return nil
		}
		return f.guard(s.m, args)
	}
	params := slices.Clone(inner.Params())
	return function.New(&function.Spec{
		Description: name,
		Params:      params,
		VarParam:    inner.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			if err := pay(args); err != nil {
				return cty.DynamicPseudoType, err
			}
			return inner.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return inner.Call(args) },
	})
}
