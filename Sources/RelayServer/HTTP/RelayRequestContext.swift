// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import Hummingbird
import HummingbirdCore
package import NIOCore

/// The context of a request, with the addresses of its connection.
package struct RelayRequestContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    package let localAddress: SocketAddress?
    package let remoteAddress: SocketAddress?

    package init(source: ApplicationRequestContextSource) {
        self.coreContext = CoreRequestContextStorage(source: source)
        self.localAddress = source.channel.localAddress
        self.remoteAddress = source.channel.remoteAddress
    }
}
