// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// Shows the sign-in, or the devices and the other screens. Asks whether this device joins an account.
final class RootViewController: UIViewController {
    private let sample: RomeSample
    private var observers: [Observer] = []
    private var shown: SampleDevice?
    private var content: UIViewController?

    init(_ sample: RomeSample) {
        self.sample = sample
        super.init(nibName: nil, bundle: nil)
    }

    @available(*, unavailable) required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        view.backgroundColor = .systemBackground
        observers = [Observer { [weak self] in self?.showPhase() }, Observer { [weak self] in self?.showQuestion() }]
    }

    private func showPhase() {
        switch sample.phase {
        case .starting: return
        case .signedOut:
            guard shown != nil || content == nil else { return }
            shown = nil
            show(UINavigationController(rootViewController: SignInViewController(sample)))
        case .signedIn(let device):
            guard shown !== device else { return }
            shown = device
            let screens: [UIViewController] = [
                DevicesViewController(device), SentViewController(device.sent), HostingViewController(sample.hosting),
                AccountViewController(sample, device),
            ]
            let tabs = UITabBarController()
            tabs.viewControllers = screens.map { UINavigationController(rootViewController: $0) }
            show(tabs)
        }
    }

    private func showQuestion() {
        guard sample.question.account != nil else { return }
        let alert = UIAlertController(
            title: sample.question.title,
            message: "Its devices and this one can then open addresses on each other.",
            preferredStyle: .alert
        )
        alert.addAction(UIAlertAction(title: "Join", style: .default) { [sample] _ in sample.question.answer(true) })
        alert.addAction(UIAlertAction(title: "Do not join", style: .cancel) { [sample] _ in sample.question.answer(false) })
        // The sheet of the sign-in may be in front.
        (presentedViewController ?? self).present(alert, animated: true)
    }

    private func show(_ controller: UIViewController) {
        content?.willMove(toParent: nil)
        content?.view.removeFromSuperview()
        content?.removeFromParent()
        addChild(controller)
        controller.view.frame = view.bounds
        controller.view.autoresizingMask = [.flexibleWidth, .flexibleHeight]
        view.addSubview(controller.view)
        controller.didMove(toParent: self)
        content = controller
    }
}
#endif
