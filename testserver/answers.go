package testserver

import (
	"encoding/json"
	"net/http"
	"strings"
)

// A listOf is how a list is answered.
type listOf[T any] struct {
	Data []T `json:"data"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, _ := json.Marshal(v) // of this package's own types: no error
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// A problem is an answer that says what is wrong (RFC 9457), in the form that
// package idempotency uses.
type problem struct {
	status int
	code   string
	title  string
}

var (
	jsonInvalid      = problem{http.StatusBadRequest, "json_invalid", "The body is not the JSON that was wanted"}
	amountInvalid    = problem{http.StatusBadRequest, "amount_invalid", "The amount is not valid"}
	currencyUnknown  = problem{http.StatusBadRequest, "currency_unknown", "The currency is not known"}
	changeUnknown    = problem{http.StatusBadRequest, "change_unknown", "The change is not known"}
	chargeNotFound   = problem{http.StatusNotFound, "charge_not_found", "There is no such charge"}
	tenantUnresolved = problem{http.StatusUnauthorized, "scope_unresolved", "The caller is not known"}
	faultInvalid     = problem{http.StatusBadRequest, "fault_invalid", "The X-Fault header is not valid"}
	durationInvalid  = problem{http.StatusBadRequest, "duration_invalid", "The duration is not valid"}
	serverClosed     = problem{http.StatusServiceUnavailable, "server_closed", "The server is closed"}
)

func (p problem) write(w http.ResponseWriter, detail string) {
	body, _ := json.Marshal(struct { // strings and an int: no error
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
		Error  string `json:"error"`
	}{"https://pkg.go.dev/github.com/saferetry/saferetry/testserver#" + p.code, p.title, p.status, detail, p.code})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	w.Write(body)
}

// currencies are the active codes of ISO 4217.
const currencies = " aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd btn bwp byn bzd " +
	"cad cdf chf clp cny cop crc cup cve czk djf dkk dop dzd egp ern etb eur fjd fkp gbp gel ghs gip gmd gnf gtq gyd " +
	"hkd hnl htg huf idr ils inr iqd irr isk jmd jod jpy kes kgs khr kmf kpw krw kwd kyd kzt lak lbp lkr lrd lsl lyd " +
	"mad mdl mga mkd mmk mnt mop mru mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg " +
	"qar ron rsd rub rwf sar sbd scr sdg sek sgd shp sle sos srd ssp stn svc syp szl thb tjs tmt tnd top try ttd twd " +
	"tzs uah ugx usd uyu uzs ves vnd vuv wst xaf xcd xcg xof xpf yer zar zmw zwg "

func isCurrency(code string) bool {
	return len(code) == 3 && !strings.Contains(code, " ") && strings.Contains(currencies, " "+code+" ")
}
