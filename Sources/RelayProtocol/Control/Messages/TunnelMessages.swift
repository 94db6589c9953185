// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension EndpointMessage {
    /// Requests a tunnel to another endpoint. `ok` contains its id; `tunnel.ready` or `tunnel.failed` follows.
    package struct TunnelOpen: NumberedControlMessage {
        package static let type = "tunnel.open"
        package var ref: RequestRef
        package var target: EndpointID
        /// How long to wait for a target that sleeps.
        package var timeout: Milliseconds
        /// The span of the opener, if it traces the tunnel.
        package var trace: TraceContext?

        package init(ref: RequestRef, target: EndpointID, timeout: Milliseconds, trace: TraceContext? = nil) {
            self.ref = ref
            self.target = target
            self.timeout = timeout
            self.trace = trace
        }

        package init(json: JSONValue) throws(JSONError) {
            self.ref = try json.member("ref")
            self.target = try json.member("target")
            self.timeout = try json.member("timeout")
            self.trace = try json.optional("trace")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("ref", ref)
            json.member("target", target)
            json.member("timeout", timeout)
            json.member("trace", trace)
        }
    }

    /// The target declines the tunnel, or the opener cancels it.
    package struct TunnelDecline: ControlMessage {
        package static let type = "tunnel.decline"
        package var tunnel: TunnelID

        package init(tunnel: TunnelID) { self.tunnel = tunnel }

        package init(json: JSONValue) throws(JSONError) {
            self.tunnel = try json.member("tunnel")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("tunnel", tunnel)
        }
    }
}

/// Where one side of a tunnel accepts direct connections, sealed for the other side: to the relay, and from it. A statement.
package struct TunnelCandidates: ControlMessage {
    package static let type = "tunnel.candidates"
    /// The texts of one side that the relay passes on in the life of a tunnel.
    package static let mostOfASide = 8

    package var tunnel: TunnelID
    package var candidates: Blob<BlobKinds.Candidates>

    package init(tunnel: TunnelID, candidates: Blob<BlobKinds.Candidates>) {
        self.tunnel = tunnel
        self.candidates = candidates
    }

    package init(json: JSONValue) throws(JSONError) {
        self.tunnel = try json.member("tunnel")
        self.candidates = try json.member("candidates")
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("tunnel", tunnel)
        json.member("candidates", candidates)
    }
}

/// The data with which one side enters a tunnel.
package struct TunnelEntrance: JSONObjectCodable, Hashable, Sendable {
    package var tunnel: TunnelID
    /// The token of this side, for one use.
    package var token: Secret<Blob<BlobKinds.TunnelToken>>
    /// The URLs of the tunnel, best first. A URL without a host uses the relay's host.
    package var urls: [String]

    package init(tunnel: TunnelID, token: Secret<Blob<BlobKinds.TunnelToken>>, urls: [String]) {
        self.tunnel = tunnel
        self.token = token
        self.urls = urls
    }

    package init(json: JSONValue) throws(JSONError) {
        self.tunnel = try json.member("tunnel")
        self.token = try json.member("token")
        self.urls = try json.member("urls")
        guard (1...Self.maximumURLs).contains(urls.count) else { throw json.invalid("urls") }
    }

    package func writeMembers(to json: inout JSONWriter) {
        json.member("tunnel", tunnel)
        json.member("token", token)
        json.member("urls", urls)
    }

    /// Each URL causes a connection attempt. The bound keeps a relay from causing any number of them.
    static let maximumURLs = 8
}

extension RelayMessage {
    /// Another endpoint has opened a tunnel to this one.
    package struct TunnelOffer: ControlMessage {
        package static let type = "tunnel.offer"
        package var entrance: TunnelEntrance
        package var opener: Introduction

        package init(entrance: TunnelEntrance, opener: Introduction) {
            self.entrance = entrance
            self.opener = opener
        }

        package init(json: JSONValue) throws(JSONError) {
            self.entrance = try json.member("entrance")
            self.opener = try json.member("opener")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("entrance", entrance)
            json.member("opener", opener)
        }
    }

    /// The requested tunnel can be entered.
    package struct TunnelReady: ControlMessage {
        package static let type = "tunnel.ready"
        package var entrance: TunnelEntrance

        package init(entrance: TunnelEntrance) { self.entrance = entrance }

        package init(json: JSONValue) throws(JSONError) {
            self.entrance = try json.member("entrance")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("entrance", entrance)
        }
    }

    /// The tunnel was not established, or its offer is no longer valid.
    package struct TunnelFailed: ControlMessage {
        package static let type = "tunnel.failed"
        package var tunnel: TunnelID
        package var code: ControlErrorCode
        /// A text for people.
        package var message: String
        package var retryAfter: Milliseconds?

        package init(tunnel: TunnelID, code: ControlErrorCode, message: String, retryAfter: Milliseconds? = nil) {
            self.tunnel = tunnel
            self.code = code
            self.message = message
            self.retryAfter = retryAfter
        }

        package init(json: JSONValue) throws(JSONError) {
            self.tunnel = try json.member("tunnel")
            self.code = try json.member("code")
            self.message = try json.member("message")
            self.retryAfter = try json.optional("retryAfter")
        }

        package func writeMembers(to json: inout JSONWriter) {
            json.member("tunnel", tunnel)
            json.member("code", code)
            json.member("message", message)
            json.member("retryAfter", retryAfter)
        }
    }
}
