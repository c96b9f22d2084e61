package peloton

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Kinds of failures, for errors.Is. A failure of another kind has its code in Error.Code.
var (
	ErrInvalidArgument    = errors.New("invalid argument")
	ErrNotFound           = errors.New("not found")
	ErrAlreadyExists      = errors.New("already exists")
	ErrConflict           = errors.New("changed by somebody else")
	ErrFailedPrecondition = errors.New("refused in the present state")
	ErrUnauthenticated    = errors.New("unauthenticated")
	ErrPermissionDenied   = errors.New("permission denied")
	ErrResourceExhausted  = errors.New("limit reached")
	ErrUnavailable        = errors.New("unavailable")
	ErrDeadlineExceeded   = errors.New("deadline exceeded")
	ErrClosed             = errors.New("the client is closed")
)

var kinds = map[codes.Code]error{
	codes.InvalidArgument:    ErrInvalidArgument,
	codes.NotFound:           ErrNotFound,
	codes.AlreadyExists:      ErrAlreadyExists,
	codes.Aborted:            ErrConflict,
	codes.FailedPrecondition: ErrFailedPrecondition,
	codes.Unauthenticated:    ErrUnauthenticated,
	codes.PermissionDenied:   ErrPermissionDenied,
	codes.ResourceExhausted:  ErrResourceExhausted,
	codes.Unavailable:        ErrUnavailable,
	codes.DeadlineExceeded:   ErrDeadlineExceeded,
}

// Error is a call that failed, or an argument that is wrong.
type Error struct {
	// Code is gRPC's. A failure that an answer tells has the code that fits it.
	Code codes.Code
	// Method is `package.Service/Method`, empty where nothing was called.
	Method string
	// Message says what was wrong, with the value, and what would be right.
	Message string
	// Field, Value and Expected are those of an argument that was refused, empty where it is not one of them.
	Field, Value, Expected string

	cause error
}

// Error returns one line for people.
func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = e.Code.String()
	}
	if e.Method == "" {
		return text
	}
	return fmt.Sprintf("%s: %s: %s", e.Method, e.Code, text)
}

// Is returns whether target is the kind of this failure.
func (e *Error) Is(target error) bool {
	if kind := kinds[e.Code]; kind != nil && kind == target {
		return true
	}
	return e.Code == codes.DeadlineExceeded && target == context.DeadlineExceeded ||
		e.Code == codes.Canceled && target == context.Canceled
}

// Unwrap returns what caused the failure.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes status.Code and status.FromError work.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

func invalid(field, value, expected string) *Error {
	return &Error{
		Code: codes.InvalidArgument, Field: field, Value: value, Expected: expected,
		Message: fmt.Sprintf("%s: %q is not %s", field, value, expected),
	}
}

// InvalidArgument in the daemons is `field: value is not expected`.
var argument = regexp.MustCompile(`^(?:[^:]*: )??([A-Za-z_][\w.\[\]-]*): (.+?) is not (.+)$`)

func newError(code codes.Code, method, message string, cause error) *Error {
	e := &Error{Code: code, Method: strings.TrimPrefix(method, "/"), Message: message, cause: cause}
	if found := argument.FindStringSubmatch(message); code == codes.InvalidArgument && found != nil {
		e.Field, e.Expected = found[1], found[3]
		e.Value = strings.Trim(found[2], `'"`)
	}
	return e
}

// failed returns the error of a call as *Error.
func failed(method string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return newError(codes.DeadlineExceeded, method, "no answer before the deadline", err)
	}
	if errors.Is(err, context.Canceled) {
		return newError(codes.Canceled, method, "canceled by the caller", err)
	}
	found, _ := status.FromError(err)
	if refusedTLS(err) {
		return newError(codes.Unauthenticated, method, found.Message(), err)
	}
	return newError(found.Code(), method, found.Message(), err)
}

// Check returns the failure that an answer of a v0 service tells, nil where it tells none.
func Check(answer proto.Message) error {
	message := answer.ProtoReflect()
	for _, name := range []protoreflect.Name{"error", "notFound", "outOfRange"} {
		field := message.Descriptor().Fields().ByName(name)
		if field == nil || field.Kind() != protoreflect.MessageKind || !message.Has(field) {
			continue
		}
		if name != "error" {
			return refusal(string(name), message.Get(field).Message())
		}
		return choice(message.Get(field).Message())
	}
	return nil
}

func choice(message protoreflect.Message) error {
	text := "refused, without a reason"
	var found error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() == protoreflect.MessageKind {
			found = refusal(string(field.Name()), value.Message())
			return false
		}
		if field.Name() == "message" {
			text = value.String()
		}
		return true
	})
	if found != nil {
		return found
	}
	return newError(codes.Unknown, "", text, nil)
}

var refusalCodes = []struct {
	part string
	code codes.Code
}{
	{"alreadyexists", codes.AlreadyExists},
	{"notfound", codes.NotFound},
	{"outofrange", codes.OutOfRange},
	{"invalid", codes.InvalidArgument},
	{"notrunning", codes.FailedPrecondition},
}

func refusal(name string, message protoreflect.Message) error {
	fields := message.Descriptor().Fields()
	text, value := "", ""
	if field := fields.ByName("message"); field != nil {
		text = message.Get(field).String()
	}
	message.Range(func(field protoreflect.FieldDescriptor, inner protoreflect.Value) bool {
		if field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap() {
			if id := inner.Message().Descriptor().Fields().ByName("value"); id != nil {
				value = inner.Message().Get(id).String()
			}
		}
		return true
	})
	if text == "" {
		text = name
	}
	code := codes.Unknown
	kind := strings.ToLower(name + " " + string(message.Descriptor().Name()))
	for _, known := range refusalCodes {
		if strings.Contains(kind, known.part) {
			code = known.code
			break
		}
	}
	err := newError(code, "", text, nil)
	if err.Value == "" {
		err.Value = value
	}
	return err
}
