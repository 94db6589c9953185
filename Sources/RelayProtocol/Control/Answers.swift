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

        package init(
            ref: RequestRef,
            code: ControlErrorCode,
            message: String,
            limit: ExceededLimit? = nil,
            retryAfter: Milliseconds? = nil,
            time: Milliseconds? = nil
        ) {
            self.ref = ref
            self.code = code
            self.message = message
            self.limit = limit
            self.retryAfter = retryAfter
            self.time = time
        }

        package init(ref: RequestRef, exceeding exceeded: LimitExceeded) {
            self.init(ref: ref, code: .limitExceeded, message: exceeded.description, limit: ExceededLimit(exceeded))
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
