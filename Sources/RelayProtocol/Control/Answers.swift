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

        /// What some requests bring: each field belongs to one.
        package struct Result: Codable, Hashable, Sendable {
            /// Of `command.send` and `command.cancel`: how far the command is.
            package var state: CommandStatus.State?
            /// Of `tunnel.open`: its id; `tunnel.ready` or `tunnel.failed` follows.
            package var tunnel: TunnelID?
            /// Of `tunnel.open`: the target sleeps and was sent a wake.
            package var isWaking: Bool?

            package init(state: CommandStatus.State? = nil, tunnel: TunnelID? = nil, isWaking: Bool? = nil) {
                self.state = state
                self.tunnel = tunnel
                self.isWaking = isWaking
            }

            private enum CodingKeys: String, CodingKey {
                case state, tunnel
                case isWaking = "waking"
            }
        }
    }

    /// A request was not served. On the wire its type is `error`.
    package struct Failure: NumberedControlMessage, Error {
        package static let type = "error"
        package var ref: RequestRef
        package var code: ControlErrorCode
        /// For people.
        package var message: String
        /// The limit, where the code is `limitExceeded` or `mailboxFull`.
        package var limit: ExceededLimit?
        /// Asking again makes sense after this long, not before.
        package var retryAfter: Milliseconds?
        /// The relay's clock, where the code is `clockSkew`.
        package var time: Milliseconds?
        /// Of `command.send`: the relay cannot rule out that it accepted the same bytes in the past. Absent on the wire when
        /// false.
        package var mayHaveRun: Bool

        package init(
            ref: RequestRef,
            code: ControlErrorCode,
            message: String,
            limit: ExceededLimit? = nil,
            retryAfter: Milliseconds? = nil,
            time: Milliseconds? = nil,
            mayHaveRun: Bool = false
        ) {
            self.ref = ref
            self.code = code
            self.message = message
            self.limit = limit
            self.retryAfter = retryAfter
            self.time = time
            self.mayHaveRun = mayHaveRun
        }

        package init(ref: RequestRef, exceeding exceeded: LimitExceeded) {
            self.init(ref: ref, code: .limitExceeded, message: exceeded.description, limit: ExceededLimit(exceeded))
        }

        private enum CodingKeys: String, CodingKey {
            case ref, code, message, limit, retryAfter, time, mayHaveRun
        }

        package init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            self.ref = try container.decode(RequestRef.self, forKey: .ref)
            self.code = try container.decode(ControlErrorCode.self, forKey: .code)
            self.message = try container.decode(String.self, forKey: .message)
            self.limit = try container.decodeIfPresent(ExceededLimit.self, forKey: .limit)
            self.retryAfter = try container.decodeIfPresent(Milliseconds.self, forKey: .retryAfter)
            self.time = try container.decodeIfPresent(Milliseconds.self, forKey: .time)
            self.mayHaveRun = try container.decodeIfPresent(Bool.self, forKey: .mayHaveRun) ?? false
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(ref, forKey: .ref)
            try container.encode(code, forKey: .code)
            try container.encode(message, forKey: .message)
            try container.encodeIfPresent(limit, forKey: .limit)
            try container.encodeIfPresent(retryAfter, forKey: .retryAfter)
            try container.encodeIfPresent(time, forKey: .time)
            if mayHaveRun { try container.encode(true, forKey: .mayHaveRun) }
        }
    }
}

/// `LimitExceeded` on the wire; of a newer relay it may name a limit that is not known here.
package struct ExceededLimit: Codable, Hashable, Sendable {
    package var name: String
    package var allowed: Int
    package var requested: Int

    package init(_ exceeded: LimitExceeded) {
        self.name = exceeded.limit.rawValue
        self.allowed = exceeded.allowed
        self.requested = exceeded.requested
    }

    /// `nil` for a limit that is not known here.
    package var error: LimitExceeded? {
        Limit(rawValue: name).map { LimitExceeded(limit: $0, allowed: allowed, requested: requested) }
    }
}
