// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import Dispatch
import Foundation
import GRDB
import Hummingbird
import HummingbirdTesting
import NIOCore
import RelayProtocol
import Synchronization
import Testing

@testable import RelayIssuer

/// A browser with cookies at an issuer's pages. It follows no redirect.
final class TestBrowser: Sendable {
    struct Page: Sendable {
        var status: Int
        var text: String
        var headers: HTTPFields

        var location: String? { headers[.location] }
        var cookies: [String] { headers.filter { $0.name.canonicalName == "set-cookie" }.map(\.value) }
    }

    static let password = "correct horse battery"

    let client: any TestClientProtocol
    let address: String
    /// The value of `Accept-Language`.
    let languages: String?
    private let jar = Mutex<[String: String]>([:])
    private let formCode = Mutex("")

    init(_ client: any TestClientProtocol, address: String = "192.0.2.1", languages: String? = nil) {
        self.client = client
        self.address = address
        self.languages = languages
    }

    var cookies: [String: String] {
        get { jar.withLock { $0 } }
        set { jar.withLock { $0 = newValue } }
    }

    /// The code of the last form.
    var code: String { formCode.withLock { $0 } }

    func get(_ path: String) async throws -> Page { try await send(.get, path) }

    /// Sends a form with the code of the last page.
    func post(_ path: String, _ fields: [String: String] = [:], origin: String? = TestIssuer.origin) async throws -> Page {
        try await post(
            path,
            body: TestDevice.encoded(["form_code": code].merging(fields) { $1 }.filter { !$0.value.isEmpty }),
            origin: origin
        )
    }

    func post(_ path: String, body: String, origin: String? = TestIssuer.origin) async throws -> Page {
        var headers: HTTPFields = [.contentType: "application/x-www-form-urlencoded"]
        headers[.origin] = origin
        return try await send(.post, path, headers, body)
    }

    private func send(_ method: HTTPRequest.Method, _ path: String, _ fields: HTTPFields = [:], _ body: String = "") async throws -> Page {
        var fields = fields
        fields[.userAgent] = "TestBrowser/1"
        fields[.acceptLanguage] = languages
        fields.append(.init(name: try #require(.init("Test-Address")), value: address))
        let cookies = jar.withLock { $0.map { "\($0.key)=\($0.value)" }.joined(separator: "; ") }
        if !cookies.isEmpty { fields[.cookie] = cookies }
        let page = try await client.execute(uri: "/auth" + path, method: method, headers: fields, body: ByteBuffer(string: body)) {
            Page(status: $0.status.code, text: String(buffer: $0.body), headers: $0.headers)
        }
        for cookie in page.cookies {
            let pair = cookie.prefix { $0 != ";" }.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let isRemoved = cookie.contains("Max-Age=0;")
            jar.withLock { $0[pair[0]] = isRemoved ? nil : pair[1] }
        }
        if let code = page.text.firstMatch(of: /name="form_code" value="([^"]+)"/) { formCode.withLock { $0 = String(code.1) } }
        return page
    }

    /// Opens a set-up link's page, sets the password, and is signed in.
    func setUp(_ test: TestIssuer, subject: String? = nil, password: String = password) async throws {
        let subject = if let subject { subject } else { try await test.ada() }
        let link = try await test.issuer.setUpLink(subject: subject, origin: TestIssuer.origin).exposed
        #expect(try await get(String(link.dropFirst(TestIssuer.url.count))).location == "/auth/setup")
        #expect(try await get("/setup").status == 200)
        #expect(try await post("/setup", ["password": password, "repeated": password]).location == "/auth/account")
    }

    func signIn(name: String = "Ada", password: String = password, next: String = "") async throws -> Page {
        _ = try await get("/login")
        return try await post("/login", ["name": name, "password": password, "next": next])
    }

    /// Makes recovery codes, in a browser that has just signed in.
    func makeCodes() async throws -> [String] {
        _ = try await get("/account")
        return try await post("/account/codes").text.matches(of: /<li class="code">([A-Z-]+)<\/li>/).map { String($0.1) }
    }

    /// Whether a user is signed in.
    var isSignedIn: Bool {
        get async throws { try await get("/account").status == 200 }
    }
}

extension TestIssuer {
    /// Runs the issuer's routes. A client's address is what its header says.
    func browse<Result: Sendable>(
        _ issuer: Issuer? = nil,
        _ body: @escaping @Sendable (any TestClientProtocol) async throws -> Result
    ) async throws -> Result {
        let router = Router()
        try (issuer ?? self.issuer).addRoutes(to: router) { request, _ in
            let text = request.headers.first { $0.name.canonicalName == "test-address" }?.value ?? "client"
            return ClientNetworks(text.split(separator: " ").map(String.init))
        }
        return try await Application(router: router, logger: logger).test(.router, body)
    }
}

/// Holds a thread until it is opened.
final class Gate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func open() { semaphore.signal() }
    func wait() { semaphore.wait() }
}

extension TestIssuer {
    func count(_ table: String) async throws -> Int {
        try await issuer.store.read { records in
            let db = try #require(records as? SQLIssuerTransaction<Database>).database
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM \(table)") ?? 0
        }
    }

    /// The number of names under which attempts are counted.
    func attemptRows() async throws -> Int { try await count("issuer_attempts") }

    /// All rows of the database, as text.
    func contents() async throws -> String {
        try await issuer.store.read { records in
            let db = try #require(records as? SQLIssuerTransaction<Database>).database
            let tables = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
            return try tables.map { "\($0): \(try Row.fetchAll(db, sql: "SELECT * FROM \($0)").map(\.description))" }.joined(
                separator: "\n"
            )
        }
    }
}
