// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Crypto
import RelayIssuer
import RelayProtocol

/// Reads arbitrary bytes as what browsers and clients send the issuer: a form or a query, HTTP Basic credentials, and the registration of a
/// client. There must be no trap, no control character may come through, and no answer may go to an address that the client did not
/// register. The first byte selects what is read.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 1 else { return 0 }
    let bytes = Array(UnsafeBufferPointer(start: start + 1, count: count - 1))
    switch start[0] % 3 {
    case 0: form(bytes)
    case 1: credentials(String(decoding: bytes, as: UTF8.self))
    default: registration(bytes)
    }
    return 0
}

private let issuer = "https://relay.example/auth"
private let now: Milliseconds = 1_793_000_000_000

private let key = SymmetricKey(data: [UInt8](repeating: 7, count: 32))

private let client: RegisteredClient = {
    let json = #"{"redirect_uris": ["http://127.0.0.1/done", "http://[::1]/done?x=1", "com.example.app:/done"], "client_name": "App"}"#
    guard let value = try? JSONValue(parsing: Array(json.utf8)), let request = try? RegistrationRequest(json: value) else {
        fatalError("the client cannot be registered")
    }
    return RegisteredClient(name: request.name, redirects: request.redirects, by: key)
}()

private func form(_ bytes: [UInt8]) {
    guard let form = try? Form(parsing: bytes) else { return }
    let encoded = Array(form.encoded.utf8)
    if encoded.count <= Form.maximumBytes {
        guard let again = try? Form(parsing: encoded), again.encoded.utf8.elementsEqual(encoded) else {
            fatalError("the form has another form")
        }
    }
    for name in ["name", "password", "user_code", "code", "next", "client_id", "redirect_uri", "state"] {
        if let value = form[name] { checkHasNoControl(value) }
    }
    _ = try? TokenRequest(form)
    authorize(form, as: client.id)
    if let id = form["client_id"] { authorize(form, as: id) }
    let place = NextPage(form["next"]).text
    guard place.utf8.first == UInt8(ascii: "/"), !place.utf8.starts(with: "//".utf8) else { fatalError("a page elsewhere") }
    typed(form)
}

private func authorize(_ form: Form, as id: String) {
    let names = ["redirect_uri", "response_type", "code_challenge", "code_challenge_method", "state", "scope"]
    let fields = [("client_id", id)] + names.compactMap { name in form[name].map { (name, $0) } }
    let text = fields.map { "\($0.0)=\(FormCoding.encode($0.1))" }.joined(separator: "&")
    guard let query = try? Form(parsing: Array(text.utf8)) else { return }
    switch try? AuthorizationRequest.read(query, issuer: issuer, key: key) {
    case .request(let request):
        guard let client = RegisteredClient(id: id), client.has(request.redirect, by: key) else { fatalError("the answer goes elsewhere") }
    case .refused(let location, _, _):
        guard let redirect = query["redirect_uri"], location.utf8.starts(with: redirect.utf8),
            location.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { fatalError("the refusal goes to another address") }
    case nil: break
    }
}

private func typed(_ form: Form) {
    if let code = form["user_code"].flatMap(UserCode.init(typed:)), UserCode(typed: code.text) != code {
        fatalError("a user code is read in two ways")
    }
    if let code = form["code"].flatMap(RecoveryCode.init(typed:)), RecoveryCode(typed: code.text.exposed) != code {
        fatalError("a recovery code is read in two ways")
    }
    if let name = form["name"].flatMap(AccountName.init) {
        checkHasNoControl(name.text)
        guard AccountName(name.text)?.key == name.key else { fatalError("a name has two keys") }
    }
}

private func credentials(_ text: String) {
    guard let read = BasicCredentials(authorization: [text]) else { return }
    checkHasNoControl(read.name)
    checkHasNoControl(read.secret.exposed)
    let pair = "\(FormCoding.encode(read.name)):\(FormCoding.encode(read.secret.exposed))"
    let again = BasicCredentials(authorization: ["Basic " + Base64.standard.encode(Array(pair.utf8))])
    guard let again, again.name.utf8.elementsEqual(read.name.utf8), again.secret.exposed.utf8.elementsEqual(read.secret.exposed.utf8) else {
        fatalError("the credentials are others when they are written again")
    }
}

private func registration(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes), let request = try? RegistrationRequest(json: json) else { return }
    let client = RegisteredClient(name: request.name, redirects: request.redirects, by: key)
    guard RegisteredClient(id: client.id) == client else { fatalError("a client's id is read in two ways") }
    for redirect in request.redirects {
        guard let again = RedirectURI(redirect.text), again == redirect, client.has(redirect, by: key) else {
            fatalError("a redirect URI is read in two ways")
        }
        guard !redirect.text.utf8.starts(with: "https:".utf8) else { fatalError("a redirect URI leads to a site") }
    }
}

private func checkHasNoControl(_ text: String) {
    guard text.unicodeScalars.allSatisfy({ $0.properties.generalCategory != .control }) else { fatalError("a control character") }
}
