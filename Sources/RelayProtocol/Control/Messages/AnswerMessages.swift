// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension RelayMessage {
    /// A request was served.
    package struct OK: NumberedControlMessage {
        package static let type = "ok"
        package var ref: RequestRef
        package var result: Result?

        package init(ref: RequestRef, result: Result? = nil) {
            self.ref = ref
            self.result = result
        }

        /// The results of some requests. Each field names its requests.
        package struct Result: JSONObjectCodable, Hashable, Sendable {
            /// Of `command.send` and `command.cancel`: the status of the command.
            package var state: CommandStatus.State?
            /// Of `tunnel.open`: its id; `tunnel.ready` or `tunnel.failed` follows.
            package var tunnel: TunnelID?
            /// Of `tunnel.open`: the target sleeps, and the relay has sent it a wake.
            package var isWaking: Bool?

            package init(state: CommandStatus.State? = nil, tunnel: TunnelID? = nil, isWaking: Bool? = nil) {
                self.state = state
                self.tunnel = tunnel
                self.isWaking = isWaking
            }

            package init(json: JSONValue) throws(JSONError) {
                self.state = try json.optional("state")
                self.tunnel = try json.optional("tunnel")
                self.isWaking = try json.optional("waking")
            }

            package func writeMembers(to json: inout JSONWriter) {
                json.member("state", state)
                json.member("tunnel", tunnel)
                json.member("waking", isWaking)
            }
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.result = try json.optional("result")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("result", result)
        }
    }

    /// A request was not served. On the wire its type is `error`.
    package struct Failure: NumberedControlMessage, Error {
        package static let type = "error"
        package var ref: RequestRef
        package var code: ControlErrorCode
        /// A text for people.
        package var message: String
        /// The limit, if the code is `limitExceeded` or `mailboxFull`.
        package var limit: ExceededLimit?
        /// How long to wait before a repeated request.
        package var retryAfter: Milliseconds?
        /// The relay's clock, if the code is `clockSkew`.
        package var time: Milliseconds?
        /// Of `command.send`: the relay cannot rule out that it accepted the same bytes in the past. Absent on the wire when
        /// false.
        package var mayHaveRun: Bool
        /// The highest number of the lane, if the code is `numberPassed`.
        package var highest: UInt64?

        package init(
            ref: RequestRef,
            code: ControlErrorCode,
            message: String,
            limit: ExceededLimit? = nil,
            retryAfter: Milliseconds? = nil,
            time: Milliseconds? = nil,
            mayHaveRun: Bool = false,
            highest: UInt64? = nil
        ) {
            self.ref = ref
            self.code = code
            self.message = message
            self.limit = limit
            self.retryAfter = retryAfter
            self.time = time
            self.mayHaveRun = mayHaveRun
            self.highest = highest
        }

        package init(ref: RequestRef, exceeding exceeded: LimitExceeded) {
            self.init(ref: ref, code: .limitExceeded, message: exceeded.description, limit: ExceededLimit(exceeded))
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.code = try json.member("code")
            self.message = try json.member("message")
            self.limit = try json.optional("limit")
            self.retryAfter = try json.optional("retryAfter")
            self.time = try json.optional("time")
            self.mayHaveRun = try json.optional("mayHaveRun") ?? false
            self.highest = try (json.optional("highest") as Int64?).map { (number) throws(JSONError) in
                let number = UInt64(clamping: number)
                guard WireNumber.range.contains(number) else { throw json.invalid("highest") }
                return number
            }
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("code", code)
            json.member("message", message)
            json.member("limit", limit)
            json.member("retryAfter", retryAfter)
            json.member("time", time)
            if mayHaveRun { json.member("mayHaveRun", true) }
            json.member("highest", highest.map { Int64(clamping: $0) })
        }
    }
}

/// `LimitExceeded` on the wire. A newer relay may name a limit that this version does not know.
package struct ExceededLimit: JSONObjectCodable, Hashable, Sendable {
    package var name: String
    package var allowed: Int
    package var requested: Int

    package init(_ exceeded: LimitExceeded) {
        self.name = exceeded.limit.rawValue
        self.allowed = exceeded.allowed
        self.requested = exceeded.requested
    }

    /// `nil` for a limit that this version does not know.
    package var error: LimitExceeded? {
        Limit(rawValue: name).map { LimitExceeded(limit: $0, allowed: allowed, requested: requested) }
    }

    package init(json: JSONValue) throws(JSONError) {
        self.name = try json.member("name")
        self.allowed = try json.member("allowed")
        self.requested = try json.member("requested")
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("name", name)
        json.member("allowed", allowed)
        json.member("requested", requested)
    }
}
