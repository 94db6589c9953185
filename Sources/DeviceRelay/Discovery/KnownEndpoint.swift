// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import RelayProtocol

/// An endpoint that this one knows, as it is known without the relay.
package struct KnownEndpoint: Sendable {
    /// Its newest record.
    package let record: EndpointRecord
    /// Whether a person, or a verified endpoint, has confirmed it. Otherwise it is known only because it was listed when this one joined.
    package let isVerified: Bool
}
