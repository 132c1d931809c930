from django.urls import path

from apps.accounts import views

app_name = "accounts"

urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("signed-out/", views.signed_out, name="signed-out"),
    path("oidc/authenticate/", views.AuthenticateView.as_view(), name="oidc-start"),
    path("oidc/callback/", views.CallbackView.as_view(), name="oidc-callback"),
    path("oidc/backchannel-logout/", views.backchannel_logout, name="backchannel-logout"),
    path("language/", views.language, name="language"),
    path("theme/", views.theme, name="theme"),
    path("settings/", views.settings_page, name="settings"),
    path("settings/preferences/", views.preferences, name="preferences"),
    path("settings/tokens/", views.token_create, name="token-create"),
    path("settings/tokens/<int:token_id>/revoke/", views.token_revoke, name="token-revoke"),
    path("settings/sessions/<int:session_id>/end/", views.session_end, name="session-end"),
    path("permissions/", views.permissions, name="permissions"),
]
